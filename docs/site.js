// Load a live page when its frame comes into sight: from disk, browsers load `loading="lazy"` at once.
const observer = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      target.src = target.dataset.src;
    }
  },
  { rootMargin: "100px" },
);
for (const frame of document.querySelectorAll("iframe[data-src]")) observer.observe(frame);

// A column of text is half as wide as most pictures: a click shows one at its own size.
for (const picture of document.querySelectorAll('.md-content img:not([src^="data:"])')) {
  picture.addEventListener("click", () => { location.href = picture.src; });
}
