import { CHAT_PROFILES, CHAT_RULES, CHAT_WAYS, type ChatBody } from './profile-chat.ts';
import { MESSAGES_PROFILES, MESSAGES_RULES, MESSAGES_WAYS, type MessagesBody } from './profile-messages.ts';
import { RESPONSES_PROFILES, RESPONSES_RULES, RESPONSES_WAYS, type ResponsesBody } from './profile-responses.ts';
import { type Profile, refusalBy } from './profile-rules.ts';
import type { Protocol } from './request.ts';

/** The ways of endpoints, by protocol: what they refuse beyond it, and what they answer differently. */
export const PROFILE_NAMES = [...CHAT_PROFILES, ...MESSAGES_PROFILES, ...RESPONSES_PROFILES] as const;
export type ProfileName = (typeof PROFILE_NAMES)[number];

const PROFILES: ReadonlyMap<string, Profile> = new Map<ProfileName, Profile>([
  ...CHAT_PROFILES.map((name): [ProfileName, Profile] => [
    name,
    { ...CHAT_WAYS[name], protocol: 'chat', refuses: (body) => refusalBy(CHAT_RULES[name], body as ChatBody) },
  ]),
  ...MESSAGES_PROFILES.map((name): [ProfileName, Profile] => [
    name,
    {
      ...MESSAGES_WAYS[name],
      protocol: 'messages',
      refuses: (body) => refusalBy(MESSAGES_RULES[name], body as MessagesBody),
    },
  ]),
  ...RESPONSES_PROFILES.map((name): [ProfileName, Profile] => [
    name,
    {
      ...RESPONSES_WAYS[name],
      protocol: 'responses',
      refuses: (body) => refusalBy(RESPONSES_RULES[name], body as ResponsesBody),
    },
  ]),
]);

/** Under these a script knows the session of each request, as whole suites need it. */
export const SESSION_PROFILES: readonly ProfileName[] = PROFILE_NAMES.filter(
  (name) => profileNamed(name).hidesSession !== true,
);

const PROVIDERS: Readonly<Record<Protocol, string>> = {
  chat: 'simulated-chat',
  messages: 'simulated-anthropic',
  responses: 'simulated',
};

/** The service's provider that asks the simulator in the protocol of a profile. */
export const simulatedProvider = (name: ProfileName): string => PROVIDERS[profileNamed(name).protocol];

/** Whether the answers of an endpoint show what the model thinks. */
export function showsThoughts(name: ProfileName): boolean {
  const { protocol, thoughts } = profileNamed(name);
  return protocol !== 'chat' || thoughts !== undefined;
}

export function profileNamed(name: ProfileName): Profile {
  const profile = PROFILES.get(name);
  if (profile === undefined) throw new Error(`There is no profile ${name}.`);
  return profile;
}
