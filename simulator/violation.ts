/**
 * The class of a violation.
 * - `shape`: not of the protocol's form
 * - `pairing`: a call without result, a result without call, or an id twice
 * - `order`: messages or blocks in a refused order
 * - `empty`: empty content
 * - `signature`: reasoning that this provider did not issue like this
 * - `name`: a forbidden name or id
 * - `cache`: cache marks
 * - `setting`: another field of the request
 */
export type ViolationClass = 'shape' | 'pairing' | 'order' | 'empty' | 'signature' | 'name' | 'cache' | 'setting';

/** A violation in the provider's words. In the text of an item `{path}` stands for its place in the request. */
export type Violation = Readonly<{ class: ViolationClass; text: string }>;

export const violation = (kind: ViolationClass, text: string): Violation => ({ class: kind, text });

export function placed(problems: readonly Violation[], path: string): Violation[] {
  return problems.map(({ class: kind, text }) => violation(kind, text.replaceAll('{path}', path)));
}
