// Below a recording: phones or words that should have been said, when each was, and how well.

import { instead, textgrid } from "./formats.js";
import { element } from "./lines.js";

const WEAK = 0.2, POOR = 0.05; // scores below which a phone is marked

const UNLIKE = "This does not seem to be what was said: words may be missing, or doubled, or be those of another recording. Times and scores mean little then.";

export class PlaceForm {
  // `model` has `goodness`, if it scores, and `words`, if the page has a dictionary; `ask` is given what to place, `show`
  // is called with the answer; `draw` draws phones on the sound; `save` is given the text of a TextGrid.
  constructor(model, segments, ask, draw, save) {
    Object.assign(this, { ask, draw, save, scores: Boolean(model.goodness) });
    const phones = segments.map((each) => each.phone).join(" ");
    this.input = element("input", { type: "text", size: 60, value: model.words ? "" : phones, spellcheck: false });
    this.button = element("button", {}, this.scores ? "Score" : "Place");
    this.answer = element("div", { role: "status" });
    const label = element("label", {}, model.words ? "What should be said: " : "Phones that should be said, with spaces between them: ", this.input, " ");
    const form = element("form", { onsubmit: (event) => { event.preventDefault(); this.submit(); } }, label, this.button);
    if (model.words) {
      const options = ["words", "phones"].map((value) => element("option", { value }, value));
      this.kind = element("select", { "aria-label": "Given as" }, ...options);
      this.kind.addEventListener("change", () => { this.input.value = this.kind.value === "phones" ? phones : ""; });
      label.after(this.kind, " ");
    }
    const question = this.scores ? "How well was it said?" : "When was each phone said?";
    this.box = element("details", { className: "scores" }, element("summary", {}, question), form, this.answer);
  }

  submit() {
    this.answer.textContent = "at work";
    this.button.disabled = true;
    this.ask({ text: this.input.value, words: this.kind?.value === "words" });
  }

  // `segments` have the number of their word in `words`; null: each is a phone that was given.
  // `isUnlike`: something else seems to have been said.
  show(segments, words, seconds, error, isUnlike) {
    this.button.disabled = false;
    if (error) {
      this.answer.textContent = `${this.scores ? "No scores" : "Not placed"}: ${error}`;
      return;
    }
    const judged = segments.filter(({ goodness }) => goodness), names = ["phone", "start", "end", ...(this.scores ? ["score", "said instead"] : [])];
    const head = [...(words ? ["word"] : []), ...names].map((name) => element("th", { scope: "col" }, name));
    const rows = segments.map((segment, k) => this.row(segment, words && segments[k - 1]?.word !== segment.word ? inWord(segments, segment, words) : null));
    const mean = `Mean of ${judged.length} phones: ${average(judged).toFixed(2)}.`;
    const said = !this.scores ? `${segments.length} phones are placed.` : judged.length ? mean : "None of these phones is judged.";
    const save = element("button", { type: "button", onclick: () => this.save(textgrid(segments, seconds, "", words)) }, "Save these as TextGrid");
    const doubt = isUnlike ? [element("p", { className: "warning" }, UNLIKE)] : [], drawn = element("div", { className: "lines" });
    this.answer.replaceChildren(...doubt, element("p", {}, said, " ", save), drawn, element("table", {}, element("tr", {}, ...head), ...rows));
    this.draw(segments, drawn);
  }

  row({ phone, start, end, goodness }, first) {
    const values = [phone, start.toFixed(2), end.toFixed(2)];
    if (this.scores) values.push(goodness?.score.toFixed(2) ?? "", instead(goodness).replace(/^- /, "nothing "));
    const kind = !goodness ? "" : goodness.score < POOR ? "poor" : goodness.score < WEAK ? "weak" : "";
    return element("tr", { className: kind }, ...(first ? [first] : []), ...values.map((value) => element("td", {}, value)));
  }
}

const average = (judged) => judged.reduce((sum, { goodness }) => sum + goodness.score, 0) / judged.length;

// The cell of a word beside its phones, with the mean of their scores.
function inWord(segments, { word }, words) {
  const own = segments.filter((each) => each.word === word), judged = own.filter(({ goodness }) => goodness);
  return element("th", { scope: "rowgroup", rowSpan: own.length }, `${words[word] ?? ""} ${judged.length ? average(judged).toFixed(2) : ""}`);
}
