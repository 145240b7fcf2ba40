// The entry of the bundle of what the body's prelude takes from npm packages.
import URL from 'core-js-pure/web/url';
import URLSearchParams from 'core-js-pure/web/url-search-params';

globalThis.__polyfills = { URL, URLSearchParams };
