// A text with entities as nodes. Offsets count UTF-16 code units, which is how JavaScript counts, too.

const ELEMENTS = {
  bold: "strong",
  italic: "em",
  underline: "u",
  strikethrough: "s",
  code: "code",
  pre: "pre",
  blockquote: "blockquote",
  expandable_blockquote: "blockquote",
};

const BLOCKS = new Set(["pre", "blockquote", "expandable_blockquote"]);

export function drawText(text, entities, from = 0, to = text.length) {
  const fragment = document.createDocumentFragment();
  let at = from;
  entities.forEach((entity, index) => {
    const end = entity.offset + entity.length;
    if (entity.offset < at || end > to) return; // inside one that is already drawn
    fragment.append(text.slice(at, entity.offset));
    const element = elementFor(entity, text.slice(entity.offset, end));
    element.append(drawText(text, entities.slice(index + 1), entity.offset, end));
    fragment.append(element);
    at = BLOCKS.has(entity.type) && text[end] === "\n" ? end + 1 : end; // a block ends its line by itself
  });
  fragment.append(text.slice(Math.min(at, to), to));
  return fragment;
}

function elementFor(entity, shown) {
  const address = entity.type === "text_link" ? entity.url : entity.type === "url" ? shown : "";
  if (!/^https?:\/\//i.test(address)) return document.createElement(ELEMENTS[entity.type] ?? "span");
  const link = document.createElement("a");
  link.href = address;
  link.rel = "noreferrer noopener";
  link.target = "_blank";
  return link;
}
