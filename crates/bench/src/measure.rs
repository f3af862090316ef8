//! Times of several things, measured alternately.

use std::time::{Duration, Instant};

/// Rounds in which everything is measured once.
const ROUNDS: usize = 600;

/// How long one thing runs in one round: short, so that many rounds are over before the machine
/// turns to somebody else.
const SLICE: Duration = Duration::from_micros(700);

/// Which round counts, from the fastest on: one of those that nothing disturbed, but not the
/// luckiest.
const UNDISTURBED: usize = ROUNDS / 20;

/// Something to measure: does its work on all objects of the workload once.
pub struct Subject<'w> {
    /// What it is called in the table.
    pub name: &'static str,
    /// The work.
    pub pass: Box<dyn FnMut() + 'w>,
}

impl<'w> Subject<'w> {
    /// A subject that does `pass` to every object of a workload.
    pub fn new<T>(name: &'static str, objects: &'w [T], mut pass: impl FnMut(&T) + 'w) -> Self {
        Subject {
            name,
            pass: Box::new(move || objects.iter().for_each(&mut pass)),
        }
    }
}

/// What was measured about one subject.
#[derive(Debug)]
pub struct Timing {
    /// What it is called in the table.
    pub name: &'static str,
    /// Nanoseconds per object.
    pub nanoseconds: f64,
    /// The time as a multiple of the first subject's.
    pub ratio: f64,
}

/// Measures all subjects, each on workloads of `objects` objects. The first is the yardstick.
pub fn times(mut subjects: Vec<Subject<'_>>, objects: usize) -> Vec<Timing> {
    let passes: Vec<u32> = subjects.iter_mut().map(passes_per_slice).collect();
    let mut rounds: Vec<Vec<f64>> = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let times = subjects.iter_mut().zip(&passes).map(|(subject, &passes)| {
            let started = Instant::now();
            for _ in 0..passes {
                (subject.pass)();
            }
            started.elapsed().as_secs_f64() * 1e9 / f64::from(passes)
        });
        rounds.push(times.collect());
    }
    #[expect(clippy::cast_precision_loss, reason = "a few objects")]
    let objects = objects as f64;
    let time = |at: usize| undisturbed(rounds.iter().map(|round| round[at])) / objects;
    let subjects = subjects.iter().enumerate();
    subjects
        .map(|(at, subject)| Timing {
            name: subject.name,
            nanoseconds: time(at),
            ratio: time(at) / time(0),
        })
        .collect()
}

/// How many passes fill a slice; warms up on the way.
fn passes_per_slice(subject: &mut Subject<'_>) -> u32 {
    let mut passes = 1;
    loop {
        let started = Instant::now();
        for _ in 0..passes {
            (subject.pass)();
        }
        if started.elapsed() >= SLICE {
            return passes;
        }
        passes *= 2;
    }
}

fn undisturbed(times: impl Iterator<Item = f64>) -> f64 {
    let mut times: Vec<f64> = times.collect();
    times.sort_unstable_by(f64::total_cmp);
    times[UNDISTURBED]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_subject_is_the_yardstick() {
        let objects = [1, 2, 3];
        let spin = |times: u32| {
            move |_: &i32| {
                for turn in 0..times {
                    std::hint::black_box(turn);
                }
            }
        };
        let subjects = vec![
            Subject::new("short", &objects, spin(1_000)),
            Subject::new("long", &objects, spin(20_000)),
        ];
        let timings = times(subjects, objects.len());
        assert!((timings[0].ratio - 1.0).abs() < f64::EPSILON);
        assert!(timings[1].ratio > 2.0, "{timings:?}");
    }
}
