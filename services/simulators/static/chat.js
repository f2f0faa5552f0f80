// One person's chat with the bot: loads it, follows it, sends to it.

import { drawText } from "/demo/static/text.js";

export class Chat {
  #bot;
  #view;
  #person = null;
  #bubbles = new Map();
  #held = null; // changes that came while the messages were being loaded
  #quiet = 0;

  constructor(bot, view) {
    this.#bot = bot;
    this.#view = view;
  }

  async open(person) {
    this.#person = person;
    const held = (this.#held = []);
    const query = new URLSearchParams({ chat: person.id, bot: this.#bot.id });
    const { messages } = await (await fetch(`/_sim/telegram/messages?${query}`)).json();
    if (held !== this.#held) return; // another load has begun
    this.#held = null;
    this.#bubbles.clear();
    this.#view.list.replaceChildren();
    this.#idle();
    for (const message of messages) this.#show(message);
    for (const change of held) this.#take(change);
    this.#view.empty.hidden = this.#bubbles.size > 0;
  }

  listen() {
    const source = new EventSource("/_sim/events");
    source.addEventListener("open", () => this.open(this.#person));
    source.addEventListener("error", () => this.#say("connecting", ""));
    source.addEventListener("message", ({ data }) => this.#take(JSON.parse(data)));
  }

  async send(text) {
    const person = this.#person;
    const body = JSON.stringify({ bot: this.#bot.id, chat: person.id, from: person, text });
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch("/_sim/telegram/events", { method: "POST", headers, body });
    if (!answer.ok) this.#say("not sent", "");
    return answer.ok;
  }

  #take(change) {
    if (change.bot !== this.#bot.id || change.chat !== this.#person?.id) return;
    if (this.#held) this.#held.push(change);
    else if (change.kind === "message") this.#show(change.message);
    else if (change.kind === "draft") this.#showDraft(change.draft.text);
    else this.#say("typing…", "typing", change.seconds);
  }

  #show(message) {
    const { list, empty } = this.#view;
    const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
    if (message.from_bot) {
      this.#bubbles.get("draft")?.remove();
      this.#bubbles.delete("draft");
      this.#idle();
    }
    if (message.deleted) {
      this.#bubbles.get(message.id)?.remove();
      this.#bubbles.delete(message.id);
    } else {
      this.#place(message.id, bubble(message));
    }
    empty.hidden = this.#bubbles.size > 0;
    if (atEnd || !message.from_bot) list.scrollTop = list.scrollHeight;
  }

  #showDraft(text) {
    if (!text) return;
    const item = bubble({ text, entities: [], from_bot: true, at: Date.now() / 1000, edits: 0 });
    item.dataset.draft = "";
    this.#place("draft", item);
    this.#view.list.scrollTop = this.#view.list.scrollHeight;
  }

  #place(key, item) {
    const shown = this.#bubbles.get(key);
    if (shown) shown.replaceWith(item);
    else this.#view.list.append(item);
    this.#bubbles.set(key, item);
  }

  #say(text, state, seconds = 0) {
    clearTimeout(this.#quiet);
    this.#view.status.textContent = text;
    this.#view.status.dataset.state = state;
    if (seconds) this.#quiet = setTimeout(() => this.#idle(), seconds * 1000);
  }

  #idle() {
    this.#say("bot", "");
  }
}

function bubble(message) {
  const item = document.createElement("li");
  item.className = "message";
  if (!message.from_bot) item.dataset.mine = "";
  const text = document.createElement("div");
  text.className = "text";
  if (message.file) text.append(`📎 ${message.file.name}\n`);
  text.append(drawText(message.text, message.entities ?? []));
  const meta = document.createElement("small");
  meta.className = "meta";
  const at = new Date(message.at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  meta.textContent = message.edits ? `edited ${at}` : at;
  item.append(text, meta);
  return item;
}
