import { readFileSync } from 'node:fs';
import { parseDocument, visit, YAMLParseError } from 'yaml';
import { BatonError } from '../domain/errors.ts';
import { objectOf, parseExactly, unholdableNumber } from '../domain/exact-json.ts';

/**
 * The content of a YAML or JSON file, with the keys of objects in their order and all digits of long numbers.
 * @param what names the file, for the message
 * @throws BatonError `config_invalid` with the reason; for invalid YAML with the place, but without the text there
 */
export function readYaml(file: string, what: string): unknown {
  try {
    return contentOf(readFileSync(file, 'utf8'));
  } catch (cause) {
    throw new BatonError('config_invalid', `${what}: ${problemOf(cause)}`, { cause });
  }
}

function contentOf(text: string): unknown {
  const document = parseDocument(text);
  const [error] = document.errors;
  if (error !== undefined) throw error;
  visit(document, {
    Scalar(_key, node) {
      if (typeof node.value !== 'number' || node.source === undefined || !JSON_NUMBER.test(node.source)) return;
      const exact = parseExactly(node.source);
      if (unholdableNumber(exact) !== null) node.value = exact;
    },
  });
  return plainObjects(document.toJS({ mapAsMap: true }));
}

const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** An object with the order of the map, also where its keys are numbers. */
function plainObjects(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plainObjects);
  if (!(value instanceof Map)) return value;
  return objectOf([...value].map(([key, item]) => [nameOf(key), plainObjects(item)]));
}

const nameOf = (key: unknown): string =>
  typeof key === 'object' && key !== null ? JSON.stringify(key) : String(key ?? '');

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
