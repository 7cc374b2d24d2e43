/** Actions that are logged with their caller. An entry has the path, which holds ids only, and no content. */
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
