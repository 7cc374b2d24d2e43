import type { RunError } from '@baton-run/server/client';
import { CircleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import { Id } from '../ui/copy.tsx';

/** Advice on a failure, by its code. */
const ADVICE: Readonly<Record<string, string>> = {
  auth: 'The provider refuses the key of this service: set the right one and restart it. Then resume.',
  model_unavailable: 'The provider does not know or does not offer this model: switch the model, then resume.',
  model_not_allowed: 'The agent does not allow this model: switch to one that it names.',
  rate_limited: 'The provider wants fewer requests. Baton has waited and tried again; resume later.',
  overloaded: 'The provider is overloaded. Baton has waited and tried again; resume later.',
  timeout: 'The provider did not answer in time. Resume to try again.',
  transport: 'The connection to the provider failed. Resume to try again.',
  quota: 'The account at the provider is used up: add to it, then resume.',
  quota_exceeded: 'The tenant has used up its quota. An operator raises it, or it renews; then resume.',
  content_policy: 'The provider refuses this content. Fork from before it, or say it differently.',
  context_exhausted:
    'The context is full, and neither a prune nor a compaction made room. Fork from an earlier message, or switch to a model with a larger window.',
  input_overflow: 'The request is larger than the model takes. Compact the session, then resume.',
  output_invalid:
    'The model was told so each time. Make the schema simpler, or say in a message what belongs into it; then resume.',
  tools_unavailable: 'A tool server does not answer. When it is back, resume.',
  tools_unsupported: 'The model takes no tools: switch the model.',
  malformed_history: 'The provider refuses the history. Fork from an earlier message.',
  invalid_request:
    'The provider refuses the request. Fork from an earlier message, leave a tool out that it names, or switch the model; then resume.',
  agent_not_found: 'The agent is no longer configured: configure it again, or switch the agent.',
  limit_exceeded:
    'A limit of the run ended it. Resume with the same limits counted anew, or send a message with others.',
};

/** A failure in the provider's words, with advice. */
export function ProviderError({ error, isShort = false }: Readonly<{ error: RunError; isShort?: boolean }>): ReactNode {
  const { code, message, provider } = error;
  const advice = ADVICE[code];
  const facts = [
    provider?.host,
    provider?.status === undefined ? undefined : `HTTP ${provider.status}`,
    provider?.code,
    provider?.errno,
  ].filter((fact) => fact !== undefined);
  return (
    <div role="alert" className="flex gap-2 rounded border border-failed/50 p-2">
      <CircleAlert size={14} className="mt-0.5 flex-none text-failed" aria-hidden="true" />
      <div className="flex min-w-0 flex-col gap-0.5">
        <p className="wrap-anywhere whitespace-pre-line" dir="auto">
          <span className="text-failed">{code.replaceAll('_', ' ')}</span>: {message}
        </p>
        {!isShort && provider?.message !== undefined && !message.includes(provider.message) && (
          <blockquote className="wrap-anywhere border-l-2 border-failed/50 pl-2" dir="auto">
            {provider.message}
          </blockquote>
        )}
        {facts.length > 0 && (
          <p className="text-sm text-dim wrap-anywhere">
            {facts.join(' · ')}
            {provider?.requestId !== undefined && (
              <>
                {' · request '}
                <Id id={provider.requestId} chars={40} />
              </>
            )}
          </p>
        )}
        {advice !== undefined && <p className="text-dim">{advice}</p>}
      </div>
    </div>
  );
}
