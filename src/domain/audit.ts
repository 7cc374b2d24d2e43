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
