/** Marks the last user message of a request for a summary. */
export const SUMMARY_REQUEST_MARK = '<summary_request>';

/** Marks the last user message of a request for a pruned conversation as JSON. */
export const PRUNING_REQUEST_MARK = '<pruning_request>';

/** The headings of a structured summary in order, each on a line of its own. */
export const SUMMARY_SECTIONS = [
  '## Goal',
  '## Constraints and preferences',
  '## Completed',
  '## State',
  '## Open questions',
  '## Next',
  '## Facts and ids',
  '## Errors and fixes',
  '## Calls in progress',
] as const;
