/**
 * ```mermaid
 * stateDiagram-v2
 *   [*] --> running
 *   running --> completed: the summary was accepted
 *   running --> rejected: it did not make the view smaller, or failed its validation
 *   running --> failed: no summary came, or its worker died
 * ```
 */
export const COMPACTION_STATES = ['running', 'completed', 'rejected', 'failed'] as const;
