//! Updates: from readings at any time to primary values at each step.
//!
//! ```text
//!   steps      |---------|---------|---------|
//!   updates       ^ last                 ^ time
//!                 '------ amount --------'          of a reading: rate x seconds, spread evenly
//!                 |open |    whole    |rest|        the step that was open, the steps after it, what is left
//! ```

use super::ring::Ring;
use super::{Archive, Kind, Reading, Source};
use crate::Error;

/// What one source has given for the next step.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub(super) source: Source,
    pub(super) last: Reading,
    /// Rate x seconds since the step began.
    pub(super) amount: f64,
    /// Seconds of the step of which nothing is known.
    pub(super) unknown: u64,
}

/// A round-robin database in memory. See [`Builder`](super::Builder).
#[derive(Clone, Debug)]
pub struct Database {
    pub(super) step: u64,
    pub(super) last: i64,
    pub(super) inputs: Vec<Input>,
    pub(super) rings: Vec<Ring>,
    /// For one update: of each source the new amount, and the value of the step.
    amounts: Vec<f64>,
    rates: Vec<f64>,
}

impl Database {
    pub(super) fn new(
        last: i64,
        step: u64,
        sources: Vec<Source>,
        archives: Vec<Archive>,
    ) -> Database {
        let (amount, unknown) = (f64::NAN, last as u64 % step);
        let width = sources.len();
        let steps = last as u64 / step;
        let input = |source| Input { source, last: Reading::Unknown, amount, unknown };
        Database {
            step,
            last,
            inputs: sources.into_iter().map(input).collect(),
            rings: archives.into_iter().map(|spec| Ring::new(spec, width, steps)).collect(),
            amounts: vec![0.0; width],
            rates: vec![0.0; width],
        }
    }

    /// When it was updated last, in seconds since the epoch.
    pub fn last_update(&self) -> i64 {
        self.last
    }

    /// What `rrdtool update` does: a reading of each source at a time after the last update.
    ///
    /// # Errors
    ///
    /// [`Error::BadSpec`] if the time is not after the last update, if there are more readings or fewer than
    /// sources, or if a counter is given what is no count. Then nothing has changed.
    pub fn update(&mut self, time: i64, readings: &[Reading]) -> Result<(), Error> {
        self.check(time, readings).map_err(Error::BadSpec)?;
        let seconds = (time - self.last) as f64;
        for ((input, reading), amount) in
            self.inputs.iter_mut().zip(readings).zip(&mut self.amounts)
        {
            *amount = input.read(*reading, seconds);
        }
        let (before, now) = (self.last as u64 / self.step, time as u64 / self.step);
        if now == before {
            for (input, amount) in self.inputs.iter_mut().zip(&self.amounts) {
                input.add(*amount, seconds);
            }
        } else {
            self.finish_steps(before, now, time);
        }
        self.last = time;
        Ok(())
    }

    fn check(&self, time: i64, readings: &[Reading]) -> Result<(), String> {
        if time <= self.last || time > i64::MAX / 2 {
            return Err(format!("update at {time} when the last was at {}", self.last));
        }
        if readings.len() != self.inputs.len() {
            return Err(format!("{} readings for {} sources", readings.len(), self.inputs.len()));
        }
        let least = |kind| match kind {
            Kind::Counter => Some(0),
            Kind::Derive => Some(i128::from(i64::MIN)),
            Kind::Gauge | Kind::Absolute => None,
        };
        for (input, reading) in self.inputs.iter().zip(readings) {
            let fits = match (reading, least(input.source.kind)) {
                (Reading::Count(count), Some(least)) => {
                    (least..=i128::from(u64::MAX)).contains(count)
                }
                (Reading::Value(_), Some(_)) => false,
                _ => true,
            };
            if !fits {
                return Err(format!("{}: {reading:?} is not a simple integer", input.source.name));
            }
        }
        Ok(())
    }

    /// The steps from `before` to `now`, which are numbers since the epoch, have ended.
    fn finish_steps(&mut self, mut before: u64, now: u64, time: i64) {
        let mut seconds = (time - self.last) as f64;
        let mut in_steps = (now * self.step) as f64 - self.last as f64;
        let open = (in_steps as u64) % self.step;
        if now - before > 1 && open > 0 {
            // The step that was open has a value of its own; those after it are all the same.
            let open = open as f64;
            for index in 0..self.inputs.len() {
                let amount = self.amounts[index];
                let part = amount * open / seconds;
                self.amounts[index] = amount - part;
                self.rates[index] =
                    self.inputs[index].finish(part, open, open, self.step, self.step);
            }
            self.absorb(before, 1);
            (seconds, in_steps, before) = (seconds - open, in_steps - open, before + 1);
        }
        let elapsed = now - before;
        for index in 0..self.inputs.len() {
            let (amount, all) = (self.amounts[index], elapsed * self.step);
            self.rates[index] =
                self.inputs[index].finish(amount, seconds, in_steps, all, self.step);
        }
        self.absorb(before, elapsed);
    }

    fn absorb(&mut self, step: u64, elapsed: u64) {
        for ring in &mut self.rings {
            ring.absorb(&self.rates, step, elapsed);
        }
    }
}

impl Input {
    /// Rate x seconds since the last reading; NaN if that is not known, or out of the limits.
    fn read(&mut self, reading: Reading, seconds: f64) -> f64 {
        let alive = self.source.heartbeat as f64 >= seconds;
        let last = if alive { self.last } else { Reading::Unknown };
        self.last = reading;
        let value = match reading {
            _ if !alive => return f64::NAN,
            Reading::Unknown => return f64::NAN,
            Reading::Value(value) => value,
            Reading::Count(count) => count as f64,
        };
        let amount = match (self.source.kind, reading, last) {
            (Kind::Gauge, ..) => value * seconds,
            (Kind::Absolute, ..) => value,
            (kind, Reading::Count(new), Reading::Count(old)) => difference(kind, new, old),
            _ => f64::NAN,
        };
        let rate = if self.source.kind == Kind::Gauge { value } else { amount / seconds };
        if rate > self.source.max || rate < self.source.min { f64::NAN } else { amount }
    }

    /// The step is not over.
    fn add(&mut self, amount: f64, seconds: f64) {
        if amount.is_nan() {
            self.unknown += seconds as u64;
        } else if self.amount.is_nan() {
            self.amount = amount;
        } else {
            self.amount += amount;
        }
    }

    /// The step is over: gives its value. Of the `seconds` with this amount, `in_steps` were before its end; it
    /// is `all` seconds long, being as many steps as have gone by.
    fn finish(&mut self, amount: f64, seconds: f64, in_steps: f64, all: u64, step: u64) -> f64 {
        let known = !amount.is_nan();
        if known {
            let before = if self.amount.is_nan() { 0.0 } else { self.amount };
            self.amount = before + amount / seconds * in_steps;
        }
        let late = if known { 0.0 } else { in_steps };
        let dead =
            seconds > self.source.heartbeat as f64 || step as f64 / 2.0 < self.unknown as f64;
        let rate = match dead {
            true => f64::NAN,
            false => self.amount / ((all - self.unknown) as f64 - late),
        };
        let rest = seconds - in_steps;
        (self.amount, self.unknown) = match known {
            true => (amount / seconds * rest, 0),
            false => (f64::NAN, rest as u64),
        };
        rate
    }
}

/// How much a count has grown. A counter that has fallen has gone beyond its 32 or 64 bits.
fn difference(kind: Kind, new: i128, old: i128) -> f64 {
    if (new < 0) != (old < 0) {
        // rrdtool does not know either.
        return f64::NAN;
    }
    let mut grown = (new - old) as f64;
    if kind == Kind::Counter {
        for wrap in [4_294_967_295.0, 18_446_744_069_414_584_320.0] {
            grown += if grown < 0.0 { wrap } else { 0.0 };
        }
    }
    grown
}
