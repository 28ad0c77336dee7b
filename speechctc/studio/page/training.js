// Train again: facts, progress, the curve, and PER before and after.

import { post } from "./api.js";
import { duration } from "./list.js";

const part = (id) => document.getElementById(id);
const RUNNING = ["preparing", "training", "scoring"];
const SAYS = {
  preparing: "computing the features",
  training: "training",
  scoring: "scoring both models on what was held out",
  done: "done",
  failed: "failed",
  stopped: "stopped",
};

export function connect(tell, refresh) {
  part("training-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    await tried(post("train", {}, { minutes: Number(part("minutes").value) }));
  });
  part("stop").addEventListener("click", () => tried(post("stop")));
  async function tried(work) {
    try {
      await work;
    } catch (error) {
      part("training-state").textContent = error.message;
      tell(error.message);
    }
    refresh();
  }
}

export function isRunning(training) {
  return RUNNING.includes(training.state);
}

export function update({ recordings, training, message, model }) {
  const corrected = recordings.filter((row) => row.state === "corrected");
  const checked = corrected.reduce((sum, row) => sum + (row.checked ?? 0), 0);
  const phones = corrected.reduce((sum, row) => sum + (row.phones ?? 0), 0);
  const whole = corrected.filter((row) => row.whole).length;
  const seconds = corrected.reduce((sum, row) => sum + (row.seconds ?? 0), 0);
  part("training-facts").textContent =
    `${corrected.length} corrected recordings, ${duration(seconds)}; ${checked} of their ${phones} phones are checked or made by hand. ` +
    "Labels that you did not check are taken as correct where you have worked. " +
    (corrected.length < 5 || !whole
      ? `The gain is measured on recordings held out: it needs 5 corrected ones (here ${corrected.length}), and some of which every phone is checked (key W; here ${whole}).`
      : `The gain is measured on recordings held out, up to a fifth, of the ${whole} whose every phone is checked.`);
  const running = isRunning(training);
  part("train").disabled = running || !model.folder;
  part("stop").disabled = !running || training.state === "scoring";
  if (!training.state) return;
  const { curve = [] } = training;
  const last = curve[curve.length - 1];
  const at = last ? `, epoch ${last.epoch} of ${training.epochs}, ${last.minutes.toFixed(1)} minutes, dev PER ${last.dev_per.toFixed(1)} %` : "";
  part("training-state").textContent = `Round ${training.round}: ${SAYS[training.state] ?? training.state}${at}. ${training.line ?? ""}`;
  part("training-result").textContent = result(training, message);
  drawCurve(curve);
}

function result({ state, before, after, forgotten, test }, message) {
  if (state !== "done") return "";
  const words = [];
  if (before && after) {
    words.push(
      `On ${after.recordings} recordings held out (${after.phones} phones), PER ${before.per.toFixed(1)} % before, ${after.per.toFixed(1)} % after: ${after.text}.`,
    );
    if (after.caution) words.push(`${after.caution}.`);
  } else if (!test?.length) words.push("Nothing could be held out (5 corrected recordings are needed, and some whose every phone is checked), so the gain is not measured.");
  if (forgotten?.length) words.push(`No correction has these phones, so the new model does not know them: ${forgotten.join(" ")}.`);
  if (message) words.push(`${message[0].toUpperCase()}${message.slice(1)}.`);
  return words.join(" ");
}

function drawCurve(curve) {
  const canvas = part("curve");
  const context = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const { width, height } = canvas;
  context.clearRect(0, 0, width, height);
  if (!curve.length) return;
  const values = curve.map((entry) => entry.dev_per);
  const top = Math.max(...values) * 1.05 + 1;
  const bottom = Math.max(Math.min(...values) * 0.95 - 1, 0);
  const x = (k) => 48 + (k / Math.max(curve.length - 1, 1)) * (width - 60);
  const y = (value) => 10 + ((top - value) / (top - bottom)) * (height - 40);
  context.fillStyle = colour("soft");
  context.font = "12px system-ui, sans-serif";
  for (const value of [bottom, (bottom + top) / 2, top]) {
    context.fillText(`${value.toFixed(0)} %`, 4, y(value) + 4);
    context.fillRect(44, y(value), width - 56, 0.5);
  }
  context.fillText(`dev PER, epoch 1 to ${curve.length}`, 48, height - 8);
  context.strokeStyle = colour("accent");
  context.fillStyle = colour("accent");
  context.lineWidth = 2;
  context.beginPath();
  values.forEach((value, k) => context[k ? "lineTo" : "moveTo"](x(k), y(value)));
  context.stroke();
  values.forEach((value, k) => context.fillRect(x(k) - 2, y(value) - 2, 4, 4));
  const last = values[values.length - 1].toFixed(1);
  canvas.setAttribute("aria-label", `Phone error rate on dev after ${curve.length} epochs: ${last} %, lowest ${Math.min(...values).toFixed(1)} %`);
}
