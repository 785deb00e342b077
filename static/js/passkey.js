// Forms that need a passkey: `data-passkey` says what is asked of the browser (get, create), the options come from the
// JSON element named by `data-options` or from the address in `data-from`. The answer goes into the field `credential`.
const able = "PublicKeyCredential" in window && "parseRequestOptionsFromJSON" in PublicKeyCredential;
const PLAIN = { NotAllowedError: "Nothing was chosen, or it took too long.", SecurityError: "Passkeys need a host name and HTTPS. On your own machine use localhost instead of 127.0.0.1.", InvalidStateError: "This device has a passkey for your account already." };

async function options(form) {
  if (form.dataset.options) return JSON.parse(document.getElementById(form.dataset.options).textContent);
  const answer = await fetch(form.dataset.from, { headers: { Accept: "application/json", "X-Requested-With": "XMLHttpRequest" } });
  return answer.json();
}

async function ask(form) {
  const found = await options(form);
  if (form.dataset.passkey === "get") return navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(found.request_options.publicKey) });
  const wanted = found.creation_options.publicKey;
  const alone = form.elements.passwordless?.checked;
  wanted.authenticatorSelection = { ...wanted.authenticatorSelection, residentKey: alone ? "required" : "discouraged", requireResidentKey: Boolean(alone), ...(alone ? { userVerification: "required" } : {}) };
  return navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(wanted) });
}

for (const form of document.querySelectorAll("form[data-passkey]")) {
  if (!able) continue;
  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    if (form.elements.credential.value) return;
    event.preventDefault();
    const told = form.querySelector(".error[role=alert]");
    try {
      const credential = await ask(form);
      form.elements.credential.value = JSON.stringify(credential.toJSON());
      form.requestSubmit();
    } catch (error) {
      told.textContent = PLAIN[error.name] ?? "The passkey could not be used.";
    }
  });
}
