// Below a recording: phones that should have been said, and how well each was.

import { element } from "./lines.js";

const WEAK = 0.2, POOR = 0.05; // scores below which a phone is marked

export class ScoreForm {
  // `ask` is given the phones to score; `show` is called with the answer.
  constructor(phones, segments, ask) {
    this.input = element("input", { type: "text", size: 60, value: segments.map((each) => each.phone).join(" "), spellcheck: false });
    this.button = element("button", {}, "Score");
    this.answer = element("div", { role: "status" });
    const label = element("label", {}, "Phones that should be said, with spaces between them: ", this.input, " ");
    const form = element("form", { onsubmit: (event) => { event.preventDefault(); this.submit(phones, ask); } }, label, this.button);
    this.box = element("details", { className: "scores" }, element("summary", {}, "How well was it said?"), form, this.answer);
  }

  submit(phones, ask) {
    const wanted = this.input.value.split(/\s+/).filter(Boolean), unknown = wanted.find((phone) => !phones.includes(phone));
    if (!wanted.length || unknown) {
      this.answer.textContent = unknown ? `“${unknown}” is no phone of this model; below, it says which are.` : "Write the phones first.";
      return;
    }
    this.answer.textContent = "at work";
    this.button.disabled = true;
    ask(wanted);
  }

  show(segments, error) {
    this.button.disabled = false;
    if (error) {
      this.answer.textContent = `No scores: ${error}`;
      return;
    }
    const judged = segments.filter(({ goodness }) => goodness), mean = judged.reduce((sum, { goodness }) => sum + goodness.score, 0) / judged.length;
    const head = ["phone", "start", "end", "score", "said instead"].map((name) => element("th", { scope: "col" }, name));
    const rows = segments.map(({ phone, start, end, goodness }) => {
      const [text, share] = goodness?.said[0] ?? ["", 0], instead = share > goodness?.probability ? `${text} ${share.toFixed(2)}` : "";
      const kind = !goodness ? "" : goodness.score < POOR ? "poor" : goodness.score < WEAK ? "weak" : "";
      const values = [phone, start.toFixed(2), end.toFixed(2), goodness?.score.toFixed(2) ?? "", instead];
      return element("tr", { className: kind }, ...values.map((value) => element("td", {}, value)));
    });
    const words = judged.length ? `Mean of ${judged.length} phones: ${mean.toFixed(2)}.` : "None of these phones is judged.";
    this.answer.replaceChildren(element("p", {}, words), element("table", {}, element("tr", {}, ...head), ...rows));
  }
}
