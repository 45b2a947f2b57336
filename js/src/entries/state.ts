/** The shared state of linked views: a model without a view. */

export default {};
