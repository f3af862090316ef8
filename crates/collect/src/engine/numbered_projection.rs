//! The decoder of a watch: a projection with a number, so that it can be told through which one an
//! object was seen.

use std::sync::Arc;

use kollect_expr::ReadSet;
use kollect_watch::{Decode, DecodeError, Decoded};

use crate::decode::DecodedObject;
use crate::plan::ResourcePlan;
use crate::projection::Projection;

/// How the objects of one resource are seen.
#[derive(Debug)]
pub(super) struct NumberedProjection {
    number: u64,
    projection: Arc<Projection>,
}

/// An object and the projection it was seen through.
#[derive(Debug)]
pub(super) struct SeenObject {
    pub(super) object: DecodedObject,
    pub(super) projection: u64,
}

impl NumberedProjection {
    /// A projection that shows what the plan of a resource reads.
    pub(super) fn new(number: u64, plan: &ResourcePlan) -> Self {
        Self {
            number,
            projection: Arc::clone(&plan.projection),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether everything in `reads` is visible through this projection.
    pub(super) fn shows(&self, reads: &ReadSet) -> bool {
        let own = self.projection.reads();
        let mut both = own.clone();
        both.merge(reads);
        own.is_everything() || both == *own
    }
}

impl Decode for NumberedProjection {
    type Object = SeenObject;

    fn decode(&self, json: &[u8]) -> Result<Decoded<SeenObject>, DecodeError> {
        let decoded = Decode::decode(&*self.projection, json)?;
        Ok(Decoded {
            resource_version: decoded.resource_version,
            object: SeenObject {
                object: decoded.object,
                projection: self.number,
            },
        })
    }
}
