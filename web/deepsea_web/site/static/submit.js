// A file that is too large is refused here already; the server does so too.

const file = document.getElementById("f-file");
const warning = document.getElementById("too-large");
const form = file.form;

function isTooLarge() {
  const [chosen] = file.files;
  return chosen !== undefined && chosen.size > Number(file.dataset.most);
}

file.addEventListener("change", () => { warning.hidden = !isTooLarge(); });
form.addEventListener("submit", (event) => {
  if (isTooLarge()) {
    event.preventDefault();
    return;
  }
  const button = form.querySelector("button");
  button.textContent = "Uploading …";
});
addEventListener("pageshow", () => { form.querySelector("button").textContent = "Submit"; });
