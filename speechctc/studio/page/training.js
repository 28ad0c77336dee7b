// Training on corrections: the verdict, progress, the curve, facts.

import { post } from "./api.js";
import { on, part, write } from "./dom.js";
import { colours } from "./draw.js";
import { duration, plural } from "./list.js";

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

export function connect(tell, refresh) {
  on("training-form", "submit", async (event) => {
    event.preventDefault();
    say("Starting: writing down what was corrected");
    part("train").disabled = true;
    await tried(post("train", {}, { minutes: Number(part("minutes").value) }));
  });
  on("stop", "click", () => {
    say("Stopping after this step; the best model until now is scored");
    tried(post("stop"));
  });
  function say(text) {
    asked = text;
    write("training-state", text);
  }
  async function tried(work) {
    await work.catch(({ message }) => {
      say(message);
      tell(message);
    });
    refresh();
  }
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
  write("open-training", running ? `Training${last ? `: epoch ${last.epoch} of ${epochs}` : ""}, ${time(training.seconds)}` : "Train");
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

function time(seconds = 0) {
  return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
}

function facts(corrected) {
  const sum = (key) => corrected.reduce((total, row) => total + (row[key] ?? 0), 0);
  const whole = corrected.filter((row) => row.whole).length;
  const count = plural(corrected.length, "corrected recording");
  if (corrected.length < LEAST) return `${count}; a training needs ${LEAST}.`;
  return (
    `${count}, ${duration(sum("seconds"))}; ${sum("checked")} of ${plural(sum("phones"), "phone")} checked, the others count as right, too. ` +
    (corrected.length < DUE || !whole
      ? `To compare the models, ${DUE} are needed, some checked as a whole (key W; here ${whole}).`
      : `Up to a fifth of those checked as a whole (${whole}) is held out, to compare the models on.`)
  );
}

// The verdict; then what it rests on, and what to do next.
function result({ state, before, after, forgotten }) {
  if (state !== "done") return ["", ""];
  const lost = forgotten?.length ? ` No correction has these phones, so the new model does not know them: ${forgotten.join(" ")}.` : "";
  if (!before || !after) return ["The new model is in use. Whether it is better was not measured.", `No recording was held out.${lost} Next: check ${DUE} or more as a whole (key W), and train again.`];
  const isKept = after.per > before.per;
  const [now, old] = [after, before].map(({ per }) => `${per.toFixed(1)} %`);
  return [
    `The ${isKept ? "old" : "new"} model is in use: of the phones held out, the new one had ${now} wrong, the old one ${old} (PER).`,
    `Both recognised the same ${plural(after.recordings, "recording")}, ${plural(after.phones, "phone")}, which no training has seen${after.caution ? ": few, so others may tell otherwise" : ""}.${lost} Next: ` +
      (isKept ? "correct more recordings, and train again. The list Model has the new model, too." : "recognise drafts again, and correct those."),
  ];
}

function drawCurve(curve, before, dev) {
  const canvas = part("curve");
  canvas.hidden = !curve.length;
  write("curve-says", "");
  if (!curve.length) return;
  const context = canvas.getContext("2d");
  const width = (canvas.width = Math.min(560, innerWidth - 90)); // which clears it
  const height = canvas.height - 10;
  const values = curve.map((entry) => entry.dev_per);
  const top = Math.max(...values, before ?? 0, 1);
  const x = (k) => 48 + (k / Math.max(curve.length - 1, 1)) * (width - 54);
  const y = (value) => height - (value / top) * (height - 20);
  context.fillStyle = colours.soft;
  context.font = "12px system-ui, sans-serif";
  for (const value of [0, top / 2, top]) {
    context.fillText(`${value.toFixed(1)} %`, 0, y(value) + 4);
    context.fillRect(44, y(value), width, 0.5);
  }
  context.lineWidth = 2;
  if (before !== undefined) {
    context.strokeStyle = colours.soft;
    context.setLineDash([6, 4]);
    stroke(context, [[48, y(before)], [width, y(before)]]);
    context.setLineDash([]);
  }
  context.strokeStyle = context.fillStyle = colours.accent;
  stroke(context, values.map((value, k) => [x(k), y(value)]));
  values.forEach((value, k) => context.fillRect(x(k) - 2, y(value) - 2, 4, 4));
  const last = values[values.length - 1].toFixed(1);
  write("curve-says", `Wrong phones (PER) after each epoch, now ${last} %${before === undefined ? "" : `; dashed, the old model: ${before.toFixed(1)} %`}. ` +
    `They are of dev, ${plural(dev, "piece")} of recordings by which the best epoch is chosen; none of them is held out, so both figures differ.`);
}

function stroke(context, points) {
  context.beginPath();
  points.forEach((point, k) => context[k ? "lineTo" : "moveTo"](...point));
  context.stroke();
}
