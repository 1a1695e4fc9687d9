// Prepares the page for the terminal of textual-serve, which starts when all has loaded.
"use strict";

// An address in a prompt is text: the terminal would open it in a new window.
window.open = () => null;

document.addEventListener("DOMContentLoaded", () => {
  const terminal = document.getElementById("terminal");
  const socket = new URL("ws", location.href);
  socket.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  terminal.dataset.sessionWebsocketUrl = socket.href;

  document.getElementById("again").addEventListener("click", () => location.reload());

  // The terminal says by a class on the body that something was drawn; from then on keys go to it.
  new MutationObserver((_, observer) => {
    if (document.body.classList.contains("-first-byte")) {
      observer.disconnect();
      terminal.querySelector("textarea").focus();
    }
  }).observe(document.body, { attributeFilter: ["class"] });
});
