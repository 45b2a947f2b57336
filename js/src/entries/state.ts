/** The shared state of linked views: it holds traits and shows nothing. */

export default {};
