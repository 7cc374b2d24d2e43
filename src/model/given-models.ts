import type { LanguageModel } from 'ai';
import { BatonError } from '../domain/errors.ts';
import type { ModelProtocol } from '../domain/model/shown-media.ts';
import type { ProviderMetadata } from '../domain/transcript/message.ts';
import type { ModelPort, ResolvedModel } from './model-port.ts';
import { withStrictAnswers } from './wire/strict-answers.ts';

/** A model of the AI SDK as its provider package makes it. */
export type GivenModel = Exclude<LanguageModel, string>;

/** Programs without types give other things in their place, such as a provider. */
export const isGivenModel = (value: unknown): value is GivenModel =>
  typeof value === 'object' && value !== null && 'modelId' in value && 'provider' in value;

type Manner = Readonly<{
  /** Of its name in Baton, by which prices and limits are found. */
  provider: string;
  protocol: ModelProtocol;
  cacheBreakpoints?: true;
  providerTools?: false;
  options: (sessionId: string) => ProviderMetadata;
}>;

const none = (): ProviderMetadata => ({});
const openaiCache = (sessionId: string) => ({ store: false, promptCacheKey: sessionId });

/**
 * How to talk to the models of the AI SDK's packages, by the name that a package gives its models (`model.provider`).
 * A model of another package is asked without options of its provider, and is shown images, but no other files.
 */
const MANNERS: Readonly<Record<string, Manner>> = {
  'openai.responses': {
    provider: 'openai',
    protocol: 'openai-responses',
    options: (sessionId) => ({ openai: { ...openaiCache(sessionId), reasoningSummary: 'auto' } }),
  },
  'openai.chat': {
    provider: 'openai-chat',
    protocol: 'openai-chat',
    providerTools: false,
    options: (sessionId) => ({ openai: openaiCache(sessionId) }),
  },
  'anthropic.messages': {
    provider: 'anthropic',
    protocol: 'anthropic-messages',
    cacheBreakpoints: true,
    providerTools: false,
    options: none,
  },
};

function mannerOf({ provider }: GivenModel): Manner {
  const manner = MANNERS[provider];
  if (manner !== undefined) return manner;
  const [first = ''] = provider.split('.');
  const name = first.toLowerCase().replaceAll(/[^a-z0-9-]+/g, '-') || 'given';
  return { provider: name, protocol: 'openai-compatible', providerTools: false, options: none };
}

/** The name of the model in agents, sessions and prices: `provider/model`. */
export const nameOfModel = (model: GivenModel): string => `${mannerOf(model).provider}/${model.modelId}`;

/** Finds the models that a program gives, and all others where the configuration has them. */
export function withGivenModels(ownModels: ReadonlyMap<string, GivenModel>, configured: ModelPort): ModelPort {
  const resolved = new Map([...ownModels].map(([name, model]) => [name, resolve(name, model)]));
  return (name) => resolved.get(name) ?? configured(name);
}

function resolve(name: string, model: GivenModel): ResolvedModel {
  const { options, provider: _named, ...manner } = mannerOf(model);
  const slash = name.indexOf('/');
  return {
    ...manner,
    model: withStrictAnswers(model, manner.protocol),
    provider: name.slice(0, slash),
    modelId: name.slice(slash + 1),
    // A model does not tell its address and key. Each name is one endpoint with one key.
    endpoint: `sdk:${model.provider}`,
    credential: name,
    providerOptions: options,
  };
}

/**
 * Adds a model by its name. `openai('gpt-5.4')` makes an object at each call: two of one factory are one model.
 * @param agent that brings the model; null: the program has named it
 * @throws BatonError `config_invalid` if another model has the name
 */
export function addGiven(
  models: Map<string, GivenModel>,
  name: string,
  model: GivenModel,
  agent: string | null = null,
): void {
  const namesake = models.get(name);
  if (namesake !== undefined && !isSameModel(namesake, model)) {
    const second = `second/${model.modelId}`;
    throw new BatonError(
      'config_invalid',
      `${agent === null ? '' : `agent ${agent}: `}there are two models named ${name}: give one of them another name, ` +
        `as in \`models: { '${second}': … }\`, and name it in its agents: \`model: '${second}'\``,
    );
  }
  models.set(name, namesake ?? model);
}

/** A factory of the AI SDK gives all its models the same function for headers, which has the key. */
function isSameModel(one: GivenModel, other: GivenModel): boolean {
  if (one === other) return true;
  const [first, second] = [configOf(one), configOf(other)];
  return (
    one.constructor === other.constructor &&
    one.provider === other.provider &&
    one.modelId === other.modelId &&
    typeof first['headers'] === 'function' &&
    first['headers'] === second['headers'] &&
    plainOf(first) === plainOf(second)
  );
}

/** The settings of a model that are no functions or objects. */
const plainOf = (config: Readonly<Record<string, unknown>>): string =>
  JSON.stringify(Object.entries(config).filter(([, value]) => ['string', 'number', 'boolean'].includes(typeof value)));

function configOf(model: GivenModel): Readonly<Record<string, unknown>> {
  const config: unknown = Reflect.get(model, 'config');
  return typeof config === 'object' && config !== null ? { ...config } : {};
}
