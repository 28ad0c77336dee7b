// Training on corrections: the verdict, progress, the curve, facts.

import { post } from "./api.js";
import { on, part, tell, write } from "./dom.js";
import { clock, duration, plural } from "./list.js";

// What is said of a training that runs, by its state.
const SAYS = {
  preparing: "computing the features",
  training: "training",
  scoring: "scoring both models on what was held out",
};

const DUE = 5; // corrected recordings that no round has had
const LEAST = 2; // corrected recordings with which a training can begin
let due = false;
let asked = ""; // the answer to a press, until the server
let before = ""; // says something else than before

export function connect(refresh) {
  const say = (text) => write("training-state", (asked = text));
  const ask = async (text, route, values) => {
    say(text);
    await post(route, {}, values).catch(({ message }) => {
      say(message);
      tell(message);
    });
    refresh();
  };
  on("training-form", "submit", (event) => {
    event.preventDefault();
    part("train").disabled = true;
    ask("Starting: writing down what was corrected", "train", { minutes: Number(part("minutes").value) });
  });
  on("stop", "click", () => ask("Stopping after this step; the best model until now is scored", "stop"));
}

// Whether enough was corrected since the last training for another.
export function isDue() {
  return due;
}

export function isRunning(training) {
  return training.state in SAYS;
}

export function update({ recordings, training, model }) {
  const corrected = recordings.filter((row) => row.state === "corrected");
  const running = isRunning(training);
  const used = new Set([...(training.train ?? []), ...(training.test ?? [])]);
  due = !running && corrected.filter((row) => !used.has(row.name)).length >= DUE;
  write("training-facts", facts(corrected));
  part("train").disabled = running || !model.folder || corrected.length < LEAST;
  part("stop").disabled = !running || training.state === "scoring";
  const { curve = [], epochs } = training;
  const last = curve[curve.length - 1];
  write("open-training", running ? `Training${last ? `: epoch ${last.epoch} of ${epochs}` : ""}, ${clock(training.seconds ?? 0)}` : "Train");
  part("open-training").classList.toggle("running", running);
  part("minutes").disabled = running;
  if (running) part("minutes").value = training.minutes;
  if (!training.state) return;
  const at = last ? `, epoch ${last.epoch} of ${epochs}` : "";
  const now = `Round ${training.round}: ${SAYS[training.state] ?? training.state}${at}. ${training.line ?? ""}`;
  if (now !== before) asked = "";
  before = now;
  write("training-state", asked || now);
  const [verdict, more] = result(training);
  write("training-result", verdict);
  write("training-next", more);
  part("training-result").title = training.after?.text ?? "";
  drawCurve(curve, training.start_per, training.dev);
}

function facts(corrected) {
  const sum = (key) => corrected.reduce((total, row) => total + (row[key] ?? 0), 0);
  const whole = corrected.filter((row) => row.whole).length;
  const count = plural(corrected.length, "corrected recording");
  if (corrected.length < LEAST) return `${count}; a training needs ${LEAST}.`;
  return (
    `${count}, ${duration(sum("seconds"))}, ${sum("checked")} of ${plural(sum("phones"), "phone")} checked; the unchecked count as right, too. ` +
    (corrected.length < DUE || !whole
      ? `To compare the models, ${DUE} are needed, some checked as a whole (key W; here ${whole}).`
      : `Checked as a whole: ${whole}; up to a fifth of these is held out, to compare the models on.`)
  );
}

// The verdict; then what it rests on, and what to do next.
function result({ state, before, after, forgotten }) {
  if (state !== "done") return ["", ""];
  const lost = forgotten?.length ? ` No correction has these phones, so the new model does not know them: ${forgotten.join(" ")}.` : "";
  if (!before || !after) return ["The new model came into use. Whether it is better was not measured.", `No recording was held out.${lost} Next: check ${DUE} or more as a whole (key W), and train again.`];
  const isKept = after.per > before.per;
  const [now, old] = [after, before].map(({ per }) => `${per.toFixed(1)} %`);
  return [
    `The ${isKept ? "old model stayed in" : "new model came into"} use: of the phones held out, the new one had ${now} wrong, the old one ${old} (PER).${after.per === before.per ? " If equal, the new one is taken." : ""}`,
    `Both recognised the same ${plural(after.recordings, "recording")}, ${plural(after.phones, "phone")}, which no training has seen${after.caution ? ": few, so others may tell otherwise" : ""}.${lost} Next: ` +
      (isKept ? "correct more recordings, and train again. The list Model has the new model, too." : "recognise drafts again, and correct those."),
  ];
}

// Draws the PER of each epoch, and dashed that of the old model; places along are in per cent, from 12 to 98.
function drawCurve(curve, before, dev) {
  const values = curve.map((entry) => entry.dev_per);
  const top = Math.max(...values, before ?? 0, 1);
  const x = (k) => 12 + (86 * k) / Math.max(values.length - 1, 1);
  const y = (value) => 165 - (150 * value) / top;
  const line = (kind, left, from, right, to) => `<line class="${kind}" x1="${left}%" y1="${y(from)}" x2="${right}%" y2="${y(to)}"/>`;
  const parts = [0, top / 2, top].map((value) => `<text y="${y(value) + 4}">${value.toFixed(1)} %</text>${line("", 12, value, 98, value)}`);
  if (before !== undefined) parts.push(line("old", 12, before, 98, before));
  values.forEach((value, k) => parts.push(line("new", x(Math.max(k - 1, 0)), values[k - 1] ?? value, x(k), value), `<circle cx="${x(k)}%" cy="${y(value)}" r="3"/>`));
  part("curve").innerHTML = values.length ? parts.join("") : "";
  write("curve-says", !values.length ? "" : `Wrong phones (PER) after each epoch, last ${values.at(-1).toFixed(1)} %${before === undefined ? "" : `; dashed, the old model: ${before.toFixed(1)} %`}. ` +
    `Counted in dev (${plural(dev, "piece")}), which chooses the best epoch. Other recordings are held out: there, figures differ.`);
}
