// Before anything is drawn: the colours that the reader chose on an earlier page, and the author who
// is logged in, whom a cookie tells to pages that are the same for everybody.
(() => {
  const { dataset } = document.documentElement;
  try {
    const name = localStorage.getItem("deepsea-theme");
    if (name === "light" || name === "dark") dataset.theme = name;
  } catch { /* nothing is kept here */ }
  try {
    const start = `${document.currentScript.dataset.cookie}=`;
    const cookie = document.cookie.split("; ").find((one) => one.startsWith(start));
    if (cookie) dataset.author = decodeURIComponent(cookie.slice(start.length));
  } catch { /* it names nobody */ }
})();
