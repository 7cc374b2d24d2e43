import { z } from 'zod';
import { formatId, parseId } from '../ids.ts';

/** A delivery that is to be sent now. A job of an older `dispatch` has nothing to do. */
export type DeliveryJob = Readonly<{ deliveryId: string; dispatch: number }>;

/** A job as it stands in its queue, with the id of the API. */
export const queuedDeliverySchema = z.strictObject({
  deliveryId: z.string().transform((id, ctx) => {
    const uuid = parseId('delivery', id);
    if (uuid !== null) return uuid;
    ctx.addIssue({ code: 'custom', message: 'the id of a delivery' });
    return z.NEVER;
  }),
  dispatch: z.number().int().positive(),
});

export const toQueuedDelivery = ({ deliveryId, dispatch }: DeliveryJob): z.input<typeof queuedDeliverySchema> => ({
  deliveryId: formatId('delivery', deliveryId),
  dispatch,
});

/** BullMQ ignores an id that it knows, so each sending has another number. */
export const deliveryJobId = ({ deliveryId, dispatch }: DeliveryJob): string =>
  `${formatId('delivery', deliveryId)}-${dispatch}`;
