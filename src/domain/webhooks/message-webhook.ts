/** The webhook of one message. `origin`: that of the URL. Deliveries of a tenant to one origin share a bound. */
export type MessageWebhook = Readonly<{ url: string; secret: string; origin: string }>;
