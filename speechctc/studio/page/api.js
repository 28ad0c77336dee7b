// Requests to the server that delivered this page; an error has the server's one line and its status.

const refused = (message, status) => Object.assign(new Error(message), { status });

// By recording, which version of its sound is open: what was fetched of another is not shown.
export const sounds = new Map();

// The token is in the address that was opened; of this tab, and of this port, alone.
const given = new URLSearchParams(location.search).get("token");
if (given) sessionStorage.setItem("token", given);
const proof = { "X-Speechctc-Token": sessionStorage.getItem("token") ?? "" };

// A studio that was started anew has another token: the tab that is opened with it tells those that are open already.
const tabs = new BroadcastChannel("token");
let place = ""; // of the recordings
tabs.onmessage = ({ data }) => {
  if (data.place !== place) return; // what was done here is not for another folder
  sessionStorage.setItem("token", data.token);
  proof["X-Speechctc-Token"] = data.token;
};

export function setPlace(found) {
  place = found;
  if (given) tabs.postMessage({ place, token: given });
}

export function address(name, values) {
  const sound = sounds.get(values.recording);
  return `/api/${name}?${new URLSearchParams(sound ? { ...values, sound } : values)}`;
}

async function answered(response) {
  if (response.ok) return response;
  if (response.status === 403) throw refused("this page has no token of the studio that runs: open the whole address that it printed; this page goes on then", 403);
  let message = (await response.text().catch(() => "")) || `the server answered ${response.status}`;
  try {
    message = JSON.parse(message).error;
  } catch {
    // the line as it is
  }
  throw refused(message, response.status);
}

async function send(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { credentials: "omit", ...options, headers: { ...proof, ...options.headers } });
  } catch {
    throw refused("the studio does not answer; was it ended? What was said to be saved is saved", 0);
  }
  return answered(response);
}

// Returns an address that the browser itself can ask for: signed, as it sends no header.
export async function signed(name, values = {}) {
  const plain = address(name, values);
  return `${plain}&sign=${await (await send(`/api/sign?${new URLSearchParams({ address: plain })}`)).text()}`;
}

export async function get(name, values = {}) {
  return (await send(address(name, values))).json();
}

export async function getBytes(name, values) {
  return (await send(address(name, values))).arrayBuffer();
}

// Sends values as JSON, or bytes as they are.
export async function post(name, values = {}, content = {}, more = {}) {
  const [kind, body] = content instanceof ArrayBuffer ? ["octet-stream", content] : ["json", JSON.stringify(content)];
  return (await send(address(name, values), { method: "POST", headers: { "Content-Type": `application/${kind}` }, body, ...more })).json();
}
