/** The console's own place: `/console`, behind a proxy perhaps `/tools/baton/console`. Without a slash at its end. */
export const CONSOLE_PLACE = new URL(document.baseURI).pathname.replace(/\/+$/, '');

/** The service, one step above the console. Without a slash at its end. */
export const SERVICE_URL = new URL('..', document.baseURI).href.replace(/\/+$/, '');

/** A path of the service as a link: `/docs`. */
export const servicePath = (path: string): string => new URL(SERVICE_URL).pathname.replace(/\/+$/, '') + path;
