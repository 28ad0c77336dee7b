// Labels as the user reads them: as written, or ARPABET in IPA. What is saved is always as the model writes it.

let names = {}; // label -> IPA
let labels = {}; // IPA -> label
let terms = {}; // what a label means
let inIpa = false;

export function setNames(found, means) {
  names = found;
  terms = means;
  labels = Object.fromEntries(Object.entries(found).map(([label, ipa]) => [ipa, label]));
}

export function setNotation(value) {
  inIpa = value === "ipa";
}

export const term = (label) => terms[label] ?? "";

export function shown(label) {
  return (inIpa && names[label]) || label;
}

export function written(text) {
  const label = text.trim().normalize("NFC");
  return (inIpa && labels[label]) || label;
}

export const percent = (share) => `${Math.round(100 * share)} %`;
