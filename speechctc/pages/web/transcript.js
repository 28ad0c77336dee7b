// What should have been said, as it is typed: phones of the model, or words that a dictionary reads. As phones/pronouncer.py
// reads words where it has a dictionary and no eSpeak NG.

const MARKS = '.,;:!?"()[]{}<>«»‹›“”„‚¿¡…—–-·。、，！？؟،؛։।', QUOTES = "'‘’`";
const TOLD = 8; // words without a pronunciation to name

function stripped(text, signs) {
  let [first, end] = [0, text.length];
  while (first < end && signs.includes(text[first])) first += 1;
  while (end > first && signs.includes(text[end - 1])) end -= 1;
  return text.slice(first, end);
}

const isWord = (token) => /[\p{L}\p{N}]/u.test(token);
const isUpper = (text) => text === text.toUpperCase() && text !== text.toLowerCase();
const key = (word) => word.replaceAll("’", "'").normalize("NFC").toLowerCase();

function bare(token) {
  let found = stripped(token, MARKS);
  if (QUOTES.includes(found[0]) && QUOTES.includes(found.at(-1))) found = stripped(found, QUOTES);
  return stripped(found, MARKS) || (isWord(token) ? token : "");
}

export class Dictionary {
  // Each line is a word and its pronunciations, separated by tabs.
  constructor(text) {
    this.words = new Map(text.split("\n").map((line) => {
      const cut = line.indexOf("\t");
      return [line.slice(0, cut), line.slice(cut + 1)];
    }));
  }

  // Returns the words of a text, each with its pronunciations as lists of phones; none where the dictionary lacks it.
  read(text) {
    const tokens = text.normalize("NFC").replaceAll("’", "'").replace(/[—―…]|--+/g, " $& ").split(/\s+/).filter(Boolean);
    const shouted = tokens.length > 1 && isUpper(tokens.join(" "));
    return tokens.flatMap((token) => this.token(token, shouted));
  }

  readings(word) {
    return (this.words.get(word) ?? "").split("\t").filter(Boolean).map((each) => each.split(" "));
  }

  token(token, shouted) {
    const name = bare(token), known = [token, stripped(token, MARKS), name].map(key).find((each) => this.words.has(each));
    if (known !== undefined) return [{ text: name, readings: [...this.readings(known), ...(shouted ? [] : this.spelled(name))] }];
    const parts = token.split(/[-‐‑–/_]/).filter(bare);
    if (parts.length > 1) return parts.flatMap((part) => this.token(part, shouted));
    return isWord(token) ? [{ text: name, readings: [] }] : [];
  }

  // The letters of a word in capitals, one after the other.
  spelled(name) {
    if (!/^\p{L}{2,}$/u.test(name) || !isUpper(name)) return [];
    const letters = [...name.toLowerCase()].map((letter) => this.readings(this.words.has(`${letter}.`) ? `${letter}.` : letter)[0]);
    return letters.every(Boolean) ? [letters.flat()] : [];
  }
}

// Returns words to place, with classes in place of phones; of phones, each is a word that `isPhone`.
export function parsed(text, phones, dictionary = null) {
  const tokens = text.split(/\s+/).filter(Boolean);
  if (tokens.some((each) => each === "*" || each.includes("|"))) throw new Error("this page has no * and no |; speechctc align has.");
  const words = dictionary ? dictionary.read(text) : tokens.map((each) => ({ text: each, readings: [[each]] }));
  if (!words.length) throw new Error(`write the ${dictionary ? "words" : "phones"} first.`);
  const unread = [...new Set(words.filter(({ readings }) => !readings.length).map((each) => each.text))].sort();
  if (unread.length) throw new Error(`the dictionary in this page lacks ${unread.slice(0, TOLD).join(", ")}${unread.length > TOLD ? " and others" : ""}.`);
  const classOf = new Map(phones.map((phone, k) => [phone, k + 1]));
  const unknown = words.flatMap(({ readings }) => readings.flat()).find((phone) => !classOf.has(phone));
  if (unknown) throw new Error(`“${unknown}” is no phone of this model; below, it says which are.`);
  const distinct = (readings) => [...new Map(readings.map((each) => [each.join(" "), each])).values()];
  return words.map(({ text: name, readings }) => ({
    text: name,
    isPhone: readings.length === 1 && readings[0].join(" ") === name,
    readings: distinct(readings).map((one) => one.map((phone) => classOf.get(phone))),
  }));
}
