import { readFileSync } from 'node:fs';
import { parse, YAMLParseError } from 'yaml';
import { BatonError } from '../domain/errors.ts';

/**
 * The content of a YAML or JSON file.
 * @param what names the file, for the message
 * @throws BatonError `config_invalid` with the reason; for invalid YAML with the place, but without the text there
 */
export function readYaml(file: string, what: string): unknown {
  try {
    return parse(readFileSync(file, 'utf8'));
  } catch (cause) {
    throw new BatonError('config_invalid', `${what}: ${problemOf(cause)}`, { cause });
  }
}

function problemOf(error: unknown): string {
  if (error instanceof YAMLParseError) {
    const [start] = error.linePos ?? [];
    const place = start === undefined ? '' : `line ${start.line}, column ${start.col}: `;
    return `${place}not valid YAML: ${reasonOf(error.message)}`;
  }
  if (error instanceof Error && 'syscall' in error) return `cannot be read: ${error.message}`;
  return `not valid YAML: ${error instanceof Error ? reasonOf(error.message) : String(error)}`;
}

/** Drops lines and quotes of the file from the parser's message, because a file may hold a key. */
function reasonOf(message: string): string {
  const [reason = ''] = message.split('\n');
  return reason.replace(/ at line \d+, column \d+:?$/, '').replaceAll(/"(?:[^"\\]|\\.)*"/g, '"…"');
}
