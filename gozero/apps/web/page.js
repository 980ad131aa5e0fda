// The page of `gozero web`: the board of board.js, over a WebSocket to the server that sent it.

import { mount } from "./board.js";

const listeners = [];
const socket = new WebSocket(new URL("socket", location.href.replace(/^http/, "ws")));
const hear = (message) => listeners.forEach((listener) => listener(message));
const ends = (text) => hear({ tell: "end", text });

mount(document.getElementById("board"), {
  send: (message) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
    else if (socket.readyState === WebSocket.CONNECTING)
      socket.addEventListener("open", () => socket.send(JSON.stringify(message)), { once: true });
    else ends("The server has ended, or gone: start `gozero web` again, and open its new address.");
  },
  listen: (listener) => listeners.push(listener),
});

socket.addEventListener("message", (event) => hear(JSON.parse(event.data)));
socket.addEventListener("close", (event) =>
  ends(event.reason || "The server has ended: start `gozero web` again, and open its new address."),
);
