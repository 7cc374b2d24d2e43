/** What is written down about who did it. Never what was said: the entry has the path, and a path has ids only. */
export const AUDITED_ACTIONS = [
  'admin:request',
  'key:create',
  'key:revoke',
  'message:remove',
  'queue:clear',
  'run:cancel',
  'session:cancel',
  'session:delete',
  'session:repin',
  'tool-call:answer',
] as const;
export type AuditedAction = (typeof AUDITED_ACTIONS)[number];

type Rule = readonly [action: AuditedAction, methods: RegExp, path: RegExp];

const RULES: readonly Rule[] = [
  ['run:cancel', /^POST$/, /^\/v1\/runs\/[^/]+\/cancel$/],
  ['session:cancel', /^POST$/, /^\/v1\/sessions\/[^/]+\/cancel$/],
  ['session:repin', /^POST$/, /^\/v1\/sessions\/[^/]+\/repin$/],
  ['session:delete', /^DELETE$/, /^\/v1\/sessions\/[^/]+$/],
  ['message:remove', /^DELETE$/, /^\/v1\/sessions\/[^/]+\/queue\/[^/]+$/],
  ['queue:clear', /^DELETE$/, /^\/v1\/sessions\/[^/]+\/queue$/],
  ['tool-call:answer', /^POST$/, /^\/v1\/runs\/[^/]+\/tool-calls\/[^/]+$/],
  ['admin:request', /^(POST|PUT|PATCH|DELETE)$/, /^\/admin\//],
];

/** The action that a request is when it succeeds; null: one that nobody asks about later. */
export function auditedAction(method: string, path: string): AuditedAction | null {
  return RULES.find(([, methods, paths]) => methods.test(method) && paths.test(path))?.[0] ?? null;
}
