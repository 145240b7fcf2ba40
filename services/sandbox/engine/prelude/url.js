// URL and URLSearchParams are core-js's.
const { URL, URLSearchParams } = globalThis.__polyfills;
delete globalThis.__polyfills;
delete globalThis['__core-js_shared__'];
for (const [name, constructor] of [['URL', URL], ['URLSearchParams', URLSearchParams]]) {
  defineProperty(constructor, 'name', { value: name, configurable: true });
  install(name, constructor);
}

const paramsText = free(URLSearchParams.prototype.toString);
forms.set(URLSearchParams.prototype, { replace: (v) => paramsText(v) });
const urlText = free(URL.prototype.toString);
looks.set(URL.prototype, (w, v) => (w.out += `URL { ${quoted(urlText(v))} }`));
looks.set(URLSearchParams.prototype, (w, v) => (w.out += `URLSearchParams { ${quoted(paramsText(v))} }`));
