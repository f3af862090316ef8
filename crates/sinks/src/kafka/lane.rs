//! How batches to one partition are numbered.

use super::records::Stamp;

/// One partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lane {
    pub(super) stamp: Stamp,
    /// A batch was sent, and what became of it is not known.
    pub(super) doubtful: bool,
    /// Where the last acknowledged batch stands.
    pub(super) offset: i64,
}

impl Lane {
    pub(super) fn new(stamp: Stamp) -> Self {
        Self {
            stamp,
            doubtful: false,
            offset: -1,
        }
    }

    /// The number of the next batch. None if there is no number left and a new identity is needed.
    pub(super) fn next(&mut self) -> Option<Stamp> {
        if self.doubtful && self.stamp != Stamp::NOBODY {
            self.stamp.epoch = self.stamp.epoch.checked_add(1)?;
            self.stamp.sequence = 0;
            self.doubtful = false;
        }
        Some(self.stamp)
    }

    /// A batch of so many records was acknowledged.
    pub(super) fn acknowledged(&mut self, records: i32) {
        self.doubtful = false;
        if self.stamp != Stamp::NOBODY {
            // Numbers begin again at zero after the largest one.
            self.stamp.sequence = self.stamp.sequence.wrapping_add(records) & i32::MAX;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane() -> Lane {
        Lane::new(Stamp {
            id: 7,
            epoch: 3,
            sequence: 0,
        })
    }

    #[test]
    fn numbers_count_records_and_begin_again() {
        let mut lane = lane();
        lane.acknowledged(5);
        assert_eq!(lane.next().unwrap().sequence, 5);
        lane.stamp.sequence = i32::MAX - 1;
        lane.acknowledged(3);
        assert_eq!(lane.next().unwrap().sequence, 1);
    }

    /// What is still on its way has a lower epoch than what follows.
    #[test]
    fn a_doubt_raises_the_epoch_once() {
        let mut lane = lane();
        lane.acknowledged(5);
        lane.doubtful = true;
        for _ in 0..2 {
            let stamp = lane.next().unwrap();
            assert_eq!((stamp.epoch, stamp.sequence), (4, 0));
        }
        lane.stamp.epoch = i16::MAX;
        lane.doubtful = true;
        assert_eq!(lane.next(), None, "a new identity is needed");
        let mut nobody = Lane::new(Stamp::NOBODY);
        nobody.doubtful = true;
        nobody.acknowledged(3);
        assert_eq!(nobody.next(), Some(Stamp::NOBODY));
    }
}
