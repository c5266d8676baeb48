//! One archive: the ring of its rows, and what is known of the row that comes next.

use super::Archive;
use crate::Cf;

/// What one source has given for the next row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partial {
    /// The sum of the known steps, the smallest, the largest or the last of them.
    pub(super) value: f64,
    /// How many steps are unknown.
    pub(super) unknown: u64,
    /// What was written last: the row that was completed, and what filled the rows after it.
    pub(super) primary: f64,
    pub(super) secondary: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Ring {
    pub(super) spec: Archive,
    pub(super) partials: Vec<Partial>,
    /// The row written last.
    pub(super) current: u64,
    pub(super) values: Vec<f64>,
}

impl Ring {
    /// Empty; of its first row so many steps have gone by.
    pub(super) fn new(spec: Archive, sources: usize, steps_gone: u64) -> Ring {
        let unknown = steps_gone % spec.steps;
        let partial = Partial { value: f64::NAN, unknown, primary: 0.0, secondary: 0.0 };
        let values = vec![f64::NAN; sources * spec.rows as usize];
        Ring { current: spec.rows - 1, partials: vec![partial; sources], values, spec }
    }

    /// Takes the primary values of `elapsed` steps that were all the same; the first of them is number `step`
    /// since the epoch.
    pub(super) fn absorb(&mut self, rates: &[f64], step: u64, elapsed: u64) {
        let to_row_end = self.spec.steps - step % self.spec.steps;
        let rows = match elapsed.checked_sub(to_row_end) {
            Some(beyond) => (beyond / self.spec.steps + 1).min(self.spec.rows),
            None => 0,
        };
        for (partial, rate) in self.partials.iter_mut().zip(rates) {
            match (self.spec.steps, rows) {
                (1, _) if elapsed == 1 => partial.primary = *rate,
                (1, _) => (partial.primary, partial.secondary) = (*rate, *rate),
                (_, 0) => partial.extend(self.spec.cf, *rate, elapsed),
                _ => partial.complete(&self.spec, *rate, to_row_end, elapsed - to_row_end),
            }
        }
        for row in 0..rows {
            self.current = if self.current + 1 == self.spec.rows { 0 } else { self.current + 1 };
            let width = self.partials.len();
            let at = self.current as usize * width;
            for (value, partial) in self.values[at..at + width].iter_mut().zip(&self.partials) {
                *value = if row == 0 { partial.primary } else { partial.secondary };
            }
        }
    }
}

impl Partial {
    /// The row goes on after these steps.
    fn extend(&mut self, cf: Cf, rate: f64, steps: u64) {
        if rate.is_nan() {
            self.unknown += steps;
            return;
        }
        let all = if cf == Cf::Average { rate * steps as f64 } else { rate };
        self.value = match cf {
            _ if self.value.is_nan() => all,
            Cf::Average => self.value + all,
            Cf::Min => all.min(self.value),
            Cf::Max => all.max(self.value),
            _ => all,
        };
    }

    /// The row ends after `steps`; `beyond` more steps are for the rows after it.
    fn complete(&mut self, spec: &Archive, rate: f64, steps: u64, beyond: u64) {
        if rate.is_nan() {
            self.unknown += steps;
        }
        self.secondary = rate;
        let or = |value: f64, other: f64| if value.is_nan() { other } else { value };
        self.primary = match spec.cf {
            _ if self.unknown as f64 > spec.steps as f64 * spec.xff => f64::NAN,
            Cf::Average => {
                let known = (spec.steps - self.unknown) as f64;
                (or(self.value, 0.0) + or(rate, 0.0) * steps as f64) / known
            }
            Cf::Min => or(rate, f64::INFINITY).min(or(self.value, f64::INFINITY)),
            Cf::Max => or(rate, f64::NEG_INFINITY).max(or(self.value, f64::NEG_INFINITY)),
            _ => rate,
        };
        let beyond = beyond % spec.steps;
        self.unknown = if rate.is_nan() { beyond } else { 0 };
        self.value = match spec.cf {
            Cf::Average if beyond == 0 || rate.is_nan() => 0.0,
            Cf::Average => rate * beyond as f64,
            _ if beyond > 0 && !rate.is_nan() => rate,
            Cf::Min => f64::INFINITY,
            Cf::Max => f64::NEG_INFINITY,
            _ => f64::NAN,
        };
    }
}
