// Apply the chosen theme and language before the first paint, so that nothing flashes.
(function () {
  "use strict";
  var root = document.documentElement;
  function kept(name) {
    try {
      return localStorage.getItem("smartgo." + name);
    } catch (error) {
      return null;
    }
  }
  var theme = kept("theme");
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  if (kept("nav") === "narrow") root.dataset.nav = "narrow";
})();
