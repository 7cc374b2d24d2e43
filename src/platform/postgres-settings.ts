import pg from 'pg';

/** Settings of a connection by their names (https://www.postgresql.org/docs/current/runtime-config.html). */
export type PostgresSettings = Readonly<Record<string, string>>;

/** A pooler that has no server connection free would let a new connection wait for its settings without an end. */
const SET_TIMEOUT_MS = 5_000;

/**
 * Splits the settings off a URL's `options`. They are set by a statement then: poolers refuse `options`, or drop them
 * without a word.
 */
export function splitSettings(connectionString: string): { connectionString: string; settings: PostgresSettings } {
  if (!URL.canParse(connectionString)) return { connectionString, settings: {} };
  const url = new URL(connectionString);
  const options = url.searchParams.get('options');
  if (options === null) return { connectionString, settings: {} };
  url.searchParams.delete('options');
  return { connectionString: url.href, settings: parseOptions(options) };
}

/**
 * Reads `-c name=value`, `-cname=value` and `--name=value`, as a server does: a backslash keeps the character after it,
 * and the last of several values counts.
 */
function parseOptions(options: string): PostgresSettings {
  const words = options.match(/(?:\\.|[^\s\\])+/g)?.map((word) => word.replace(/\\(.)/g, '$1')) ?? [];
  const settings: Record<string, string> = {};
  for (let index = 0; index < words.length; index += 1) {
    const word = words[index] ?? '';
    const pair = word === '-c' ? (words[++index] ?? '') : word.replace(/^(?:-c|--)/, '');
    const at = pair.indexOf('=');
    if (at > 0) settings[pair.slice(0, at).replaceAll('-', '_')] = pair.slice(at + 1);
  }
  return settings;
}

/** Calls of `set_config` for the list of a `select`. They hold until the connection ends. */
export const setAll = (settings: PostgresSettings): string =>
  Object.entries(settings)
    .map(([name, value]) => `set_config(${pg.escapeLiteral(name)}, ${pg.escapeLiteral(value)}, false)`)
    .join(', ');

/** Gives a new connection its settings. @throws the server's error for one that it refuses */
export async function applySettings(client: pg.ClientBase, settings: PostgresSettings): Promise<void> {
  if (Object.keys(settings).length === 0) return;
  const query: pg.QueryConfig & { query_timeout: number } = {
    text: `select ${setAll(settings)}`,
    query_timeout: SET_TIMEOUT_MS,
  };
  await client.query(query);
}
