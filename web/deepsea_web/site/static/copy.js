// Buttons that copy a secret or a command, and that print; without them both can be done by hand.

for (const secret of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) break;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  const said = document.createElement("span");
  said.setAttribute("role", "status");
  said.className = "soft";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(secret.textContent);
      said.textContent = "Copied.";
    } catch {
      said.textContent = "Select it and copy it by hand.";
    }
  });
  secret.after(" ", button, " ", said);
}

for (const button of document.querySelectorAll("[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => print());
}
