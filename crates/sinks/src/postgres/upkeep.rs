//! What is done after deliveries, and rows do not depend on: views that follow, histories that
//! forget.

use std::{
    collections::HashMap,
    sync::{Arc, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use kollect_api::InventoryId;
use tokio::time::Instant;

use super::{
    Left, PostgresSink,
    tasks::{Done, Task},
    views::Shapes,
};
use crate::sink::{AttributeTypes, Delivery, DeliveryRows};

/// How often a history is cut.
const FORGET: Duration = Duration::from_hours(1);

/// What views were made for: attributes, and their declared types.
type Seen = (Shapes, Arc<AttributeTypes>);

impl PostgresSink {
    fn shapes(&self) -> MutexGuard<'_, HashMap<InventoryId, Seen>> {
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets views follow what was delivered. Rows do not depend on them.
    pub(super) async fn follow_views(&self, delivery: &Delivery) {
        if !self.plan.target_views {
            return;
        }
        let inventory = &delivery.inventory;
        let (before, types) = self.shapes().get(inventory).cloned().unwrap_or_default();
        let declared = &delivery.documents.types;
        let (shapes, news) = match &delivery.rows {
            DeliveryRows::All(snapshot) => {
                let mut shapes = Shapes::default();
                shapes.see(snapshot.rows().iter());
                let news = shapes != before || types != *declared;
                (shapes, news)
            }
            DeliveryRows::Changes(delta) => {
                let mut shapes = before.clone();
                let news = shapes.see(delta.upserts());
                (shapes, news)
            }
        };
        if !news {
            return;
        }
        let gone: Vec<String> = before.without(&shapes).map(str::to_owned).collect();
        let wanted = shapes.views(declared);
        let task = Task::Views(&wanted, &gone);
        match self.run(inventory, delivery.at.into(), &task).await {
            Ok(Done::Viewed(warnings)) => {
                for warning in warnings {
                    tracing::warn!(%inventory, "{warning}");
                }
                let seen = (shapes, Arc::clone(declared));
                self.shapes().insert(inventory.clone(), seen);
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%inventory, %error, "views do not follow; tried again"),
        }
    }

    /// Lets the history forget what it has for too long, now and then. Rows do not depend on it.
    pub(super) async fn forget(&self, delivery: &Delivery, left: &mut Left) {
        let Some(kept) = self.plan.keeps_history else {
            return;
        };
        if Instant::now() < left.forget_at {
            return;
        }
        left.forget_at = Instant::now() + FORGET;
        let at = SystemTime::from(delivery.at);
        let Some(moment) = at.checked_sub(kept) else {
            return;
        };
        let task = Task::Forget(moment);
        match self.run(&delivery.inventory, at, &task).await {
            // There is more, but others wait too.
            Ok(Done::Forgotten(false)) => left.forget_at = Instant::now(),
            Ok(_) => {}
            Err(error) => {
                let inventory = &delivery.inventory;
                tracing::warn!(%inventory, %error, "the history is not cut; tried again in an hour");
            }
        }
    }

    /// Drops the views of an inventory that is no more, as far as nobody else has rows for them.
    pub(super) async fn drop_views(&self, inventory: &InventoryId) {
        let Some((shapes, _)) = self.shapes().remove(inventory) else {
            return;
        };
        let nothing = Shapes::default();
        let gone: Vec<String> = shapes.without(&nothing).map(str::to_owned).collect();
        let task = Task::Views(&[], &gone);
        if let Err(error) = self.run(inventory, SystemTime::UNIX_EPOCH, &task).await {
            tracing::warn!(%inventory, %error, "views are left over");
        }
    }
}
