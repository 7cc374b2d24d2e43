import { z } from 'zod';
import { didYouMean } from '../domain/did-you-mean.ts';
import { issueWords } from '../domain/issue-words.ts';

/** One mistake in a file of settings. */
export type FileProblem = Readonly<{
  /** Dotted; empty: the whole file. */
  path: string;
  message: string;
  /** Dotted paths of the wrong keys. */
  keys: readonly string[];
}>;

/** A schema's complaints about the content of a file. For an unknown key it suggests a similar known one. */
export function fileProblems(schema: z.ZodType, error: z.ZodError): FileProblem[] {
  return error.issues.map((issue) => problemOf(schema, closestIssue(issue)));
}

/** All problems in one line. */
export function describeProblems(problems: readonly FileProblem[]): string {
  return problems.map(({ path, message }) => `${path || '(root)'}: ${message}`).join('; ');
}

type Issue = Readonly<{ path: readonly PropertyKey[]; issue: z.core.$ZodIssue }>;

function problemOf(schema: z.ZodType, { path, issue }: Issue): FileProblem {
  const dotted = path.join('.');
  if (issue.code !== 'unrecognized_keys') return { path: dotted, message: issueWords(issue), keys: [dotted] };
  const keys = keysAt(schema, path);
  const unknown = issue.keys.map((key) => `unknown key "${key}"${didYouMean(key, keys)}`);
  return { path: dotted, message: unknown.join(', '), keys: issue.keys.map((key) => [...path, key].join('.')) };
}

/** Of a union's issues, the one of the branch that came closest. */
function closestIssue(issue: z.core.$ZodIssue, above: readonly PropertyKey[] = []): Issue {
  const path = [...above, ...issue.path];
  const closest = issue.code === 'invalid_union' ? issue.errors.flat().toSorted(byDepth)[0] : undefined;
  if (closest !== undefined && (closest.path.length > 0 || closest.code === 'unrecognized_keys')) {
    return closestIssue(closest, path);
  }
  return { path, issue };
}

const rank = ({ path, code }: z.core.$ZodIssue): number => path.length * 2 + (code === 'unrecognized_keys' ? 1 : 0);
const byDepth = (a: z.core.$ZodIssue, b: z.core.$ZodIssue): number => rank(b) - rank(a);

type JsonSchema = z.core.JSONSchema.BaseSchema;

/** The keys that a schema knows at a path. */
function keysAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  let places: JsonSchema[] = [z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })];
  for (const key of path) places = places.flatMap(alternatives).flatMap((place) => childrenOf(place, key));
  return places.flatMap(alternatives).flatMap(({ properties = {} }) => Object.keys(properties));
}

const alternatives = (place: JsonSchema): JsonSchema[] => [
  place,
  ...[place.anyOf, place.oneOf, place.allOf].flatMap((each = []) => each.flatMap(alternatives)),
];

function childrenOf({ properties, items, additionalProperties }: JsonSchema, key: PropertyKey): JsonSchema[] {
  const children = [properties?.[String(key)], typeof key === 'number' ? items : undefined, additionalProperties];
  return children.flat().filter((child): child is JsonSchema => typeof child === 'object');
}
