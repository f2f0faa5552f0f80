// The demo chat: messages come by server-sent events, and all text reaches the page as text nodes.

import { Chat } from "/demo/static/chat.js";

const PEOPLE = [
  { id: 5001, first_name: "Ada", username: "ada_demo" },
  { id: 5002, first_name: "Bob", username: "bob_demo" },
  { id: 5003, first_name: "Chidi", username: "chidi_demo" },
];

const find = (name) => document.querySelector(`[data-${name}]`);

async function start() {
  const { bot } = await (await fetch("/_sim/demo")).json();
  find(bot ? "compose" : "no-bot").hidden = false;
  find("persona").closest("label").hidden = !bot;
  find("status").textContent = bot ? "bot" : "no bot";
  if (!bot) return;
  find("bot-name").textContent = bot.name;
  find("bot-initial").textContent = bot.name.slice(0, 1);
  wire(new Chat(bot, { list: find("messages"), empty: find("empty"), status: find("status") }));
}

function wire(chat) {
  const persona = find("persona");
  for (const { first_name: name } of PEOPLE) persona.append(new Option(name));
  const current = () => PEOPLE[persona.selectedIndex];
  persona.addEventListener("change", () => chat.open(current()));

  const form = find("compose");
  const text = form.querySelector("textarea");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (text.value.trim() && (await chat.send(text.value))) text.value = "";
    text.focus();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });

  chat.open(current());
  chat.listen();
  text.focus();
}

start();
