// Requests to the server that this page came from, with the key that the user gave.

const KEY = "vernier-api-key";
let asking = null;  // the promise of the key dialog that is open

const byId = (id) => document.getElementById(id);

/** The error that a response tells, in the server's words. */
async function problemOf(response) {
  try {
    const { error } = await response.json();
    if (error?.message) return `${error.message} (${response.status})`;
  } catch {
    // no JSON: the status has to do
  }
  return `The server answered ${response.status} ${response.statusText}`.trim();
}

/** Asks the user for a key, once for all requests that wait for one. Rejects when the user cancels. */
function askForKey(problem) {
  asking ??= new Promise((resolve, reject) => {
    const dialog = byId("key-dialog");
    byId("key-problem").textContent = problem;
    byId("key").value = "";
    byId("key-form").onsubmit = (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, byId("key").value.trim());
      dialog.onclose = null;
      dialog.close();
      resolve();
    };
    byId("key-cancel").onclick = () => dialog.close();
    dialog.onclose = () => reject(new Error("The server asks for an API key."));
    dialog.showModal();
  }).finally(() => { asking = null; });
  return asking;
}

/** fetch, of a path relative to the page; where `quiet`, a 401 opens no dialog. Throws what went wrong as an Error. */
export async function request(path, { quiet = false, ...options } = {}) {
  while (true) {
    const key = sessionStorage.getItem(KEY);
    const headers = { ...options.headers };
    if (key) headers.Authorization = `Bearer ${key}`;
    const response = await fetch(path, { ...options, headers });
    if (response.ok) return response;
    const problem = await problemOf(response);
    if (response.status !== 401 || quiet) throw Object.assign(new Error(problem), { status: response.status });
    // Another request may have got a new key in the meantime.
    if (key === sessionStorage.getItem(KEY)) await askForKey(key ? problem : "");
  }
}

/** The data of each server-sent event of a response, parsed; ends at [DONE], throws if the stream ends without it. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    while (true) {
      const { done, value } = await reader.read();
      if (done) throw new Error("The connection ended before the answer did.");
      text += value;
      const lines = text.split(/\r?\n/);
      text = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data:")) continue;  // comments keep the connection alive; blank lines part events
        const data = line.slice(5).trim();
        if (data === "[DONE]") return;
        yield JSON.parse(data);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
