//! An axis: where a value stands, which values get a tick, and what is written at it.
//!
//! A linear axis begins at zero, so that lengths can be compared. A logarithmic one begins and ends at
//! a tick: powers of two, or 1, 2 and 5 times powers of ten where there is room for them.

/// How values become places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    Log2,
    Log10,
}

/// What the values are, which decides how they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    Number,
    /// Written with the fitting unit: ns, µs, ms or s.
    Seconds,
}

/// One axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) scale: Scale,
    pub(crate) quantity: Quantity,
}

impl Axis {
    pub(crate) fn new(label: &str, scale: Scale, quantity: Quantity) -> Axis {
        Axis { label: label.to_owned(), scale, quantity }
    }

    /// Whether the value has a place.
    pub(super) fn shows(&self, v: f64) -> bool {
        v.is_finite() && if self.scale == Scale::Linear { v >= 0.0 } else { v > 0.0 }
    }

    /// The ticks for values from `low` to `high`, at most about `room` of them. The first and the
    /// last are the ends of the axis.
    pub(super) fn ticks(&self, low: f64, high: f64, room: usize) -> Vec<f64> {
        match self.scale {
            Scale::Linear => linear(high, room),
            Scale::Log2 => powers_of_two(low, high, room),
            Scale::Log10 => decades(low, high, room),
        }
    }

    /// Where `v` stands between the first tick (0) and the last (1).
    pub(super) fn place(&self, v: f64, ticks: &[f64]) -> f64 {
        let at = |v: f64| if self.scale == Scale::Linear { v } else { v.ln() };
        let (first, last) = (at(ticks[0]), at(ticks[ticks.len() - 1]));
        (at(v) - first) / (last - first)
    }

    /// What is written at a tick.
    pub(super) fn tick(&self, v: f64, ticks: &[f64]) -> String {
        // One unit for all of a linear axis, the fitting one for each tick of another.
        let like = if self.scale == Scale::Linear { ticks[ticks.len() - 1] } else { v };
        self.quantity.written(v, like, 3)
    }
}

impl Quantity {
    /// With three or four digits, for tables.
    pub(super) fn figure(self, v: f64) -> String {
        self.written(v, v, 3)
    }

    fn written(self, v: f64, like: f64, digits: usize) -> String {
        let (factor, unit) = match self {
            Quantity::Number => (1.0, ""),
            Quantity::Seconds => match like {
                _ if like >= 0.9995 => (1.0, " s"),
                _ if like >= 0.9995e-3 => (1e3, " ms"),
                _ if like >= 0.9995e-6 => (1e6, " µs"),
                _ => (1e9, " ns"),
            },
        };
        format!("{}{unit}", number(v * factor, digits))
    }
}

/// At least `digits` digits that count, without zeros at the end of a fraction: `2,048`, `0.5`, `12.3`.
fn number(v: f64, digits: usize) -> String {
    if v == 0.0 {
        return "0".to_owned();
    }
    let places = digits as i32 - 1 - v.abs().log10().floor() as i32;
    let text = format!("{v:.*}", places.max(0) as usize);
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut out = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    match fraction.trim_end_matches('0') {
        "" => out,
        rest => format!("{out}.{rest}"),
    }
}

fn linear(high: f64, room: usize) -> Vec<f64> {
    if high <= 0.0 {
        return vec![0.0, 1.0];
    }
    let ten = 10f64.powf((high / room.max(1) as f64).log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|m| m * ten);
    let fits = |s: &&f64| (high / **s).ceil() as usize <= room.max(1);
    let step = step.iter().find(fits).copied().unwrap_or(20.0 * ten);
    (0..=(high / step - 1e-9).ceil().max(1.0) as u32).map(|i| f64::from(i) * step).collect()
}

/// A little slack, so that a power that a logarithm has blurred is still that power.
const SLACK: f64 = 1e-9;

fn powers_of_two(low: f64, high: f64, room: usize) -> Vec<f64> {
    let first = (low.log2() + SLACK).floor() as i32;
    let last = ((high.log2() - SLACK).ceil() as i32).max(first + 1);
    let step = (1..).find(|s| (last - first) as usize / s < room.max(2)).unwrap_or(1) as i32;
    // The end is a tick, too.
    let last = first + (last - first + step - 1) / step * step;
    (first..=last).step_by(step as usize).map(|e| 2f64.powi(e)).collect()
}

fn decades(low: f64, high: f64, room: usize) -> Vec<f64> {
    // First those with the most ticks.
    let ways: [&[f64]; 3] = [&[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
    let mut ticks = Vec::new();
    for way in ways {
        ticks = marks(low, high, way);
        if ticks.len() <= room {
            return ticks;
        }
    }
    let step = ticks.len().div_ceil(room.max(2));
    let end = ticks[0].log10().round() as i32 + (ticks.len() - 1).next_multiple_of(step) as i32;
    let first = ticks[0].log10().round() as i32;
    (first..=end).step_by(step).map(|e| 10f64.powi(e)).collect()
}

/// The multiples of powers of ten from the last below `low` to the first above `high`.
fn marks(low: f64, high: f64, way: &[f64]) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32 - 1, high.log10().ceil() as i32 + 1);
    let all: Vec<f64> =
        (first..=last).flat_map(|e| way.iter().map(move |m| m * 10f64.powi(e))).collect();
    let from = all.iter().rposition(|v| *v <= low * (1.0 + SLACK)).unwrap_or(0);
    let to = all.iter().position(|v| *v >= high * (1.0 - SLACK)).unwrap_or(all.len() - 1);
    all[from..=to.max(from + 1)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(scale: Scale, quantity: Quantity, low: f64, high: f64, room: usize) -> String {
        let axis = Axis::new("", scale, quantity);
        let ticks = axis.ticks(low, high, room);
        ticks.iter().map(|t| axis.tick(*t, &ticks)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn ticks_are_round_and_have_units() {
        let number = |scale, low, high, room| written(scale, Quantity::Number, low, high, room);
        assert_eq!(number(Scale::Linear, 3.0, 47.0, 6), "0 10 20 30 40 50");
        assert_eq!(number(Scale::Linear, 0.0, 1.0, 5), "0 0.2 0.4 0.6 0.8 1");
        assert_eq!(number(Scale::Linear, 50.0, 1000.0, 5), "0 200 400 600 800 1,000");
        assert_eq!(number(Scale::Linear, 0.0, 0.0, 5), "0 1");
        assert_eq!(number(Scale::Log2, 1.0, 16.0, 12), "1 2 4 8 16");
        assert_eq!(number(Scale::Log2, 1.0, 2048.0, 7), "1 4 16 64 256 1,024 4,096");
        assert_eq!(number(Scale::Log2, 5.0, 5.0, 7), "4 8");
        assert_eq!(number(Scale::Log10, 10.0, 10_000.0, 5), "10 100 1,000 10,000");
        assert_eq!(number(Scale::Log10, 3.0, 40.0, 8), "2 5 10 20 50");
        assert_eq!(number(Scale::Log10, 7.0, 7.0, 8), "5 10");
        let time = |scale, low, high| written(scale, Quantity::Seconds, low, high, 7);
        assert_eq!(time(Scale::Log10, 4e-7, 0.05), "100 ns 1 µs 10 µs 100 µs 1 ms 10 ms 100 ms");
        assert_eq!(time(Scale::Log10, 1e-9, 1e3), "1 ns 100 ns 10 µs 1 ms 100 ms 10 s 1,000 s");
        assert_eq!(time(Scale::Linear, 0.1, 1.4), "0 s 0.2 s 0.4 s 0.6 s 0.8 s 1 s 1.2 s 1.4 s");
    }

    #[test]
    fn every_value_is_within_the_axis_and_the_ticks_have_room() {
        for scale in [Scale::Linear, Scale::Log2, Scale::Log10] {
            let axis = Axis::new("", scale, Quantity::Number);
            for (low, factor) in [(1e-9, 1.0), (0.3, 1.7), (1.0, 64.0), (7.0, 1e5), (1e-6, 1e9)] {
                for room in [2, 5, 9] {
                    let high = low * factor;
                    let ticks = axis.ticks(low, high, room);
                    assert!(ticks.is_sorted_by(|a, b| a < b), "{ticks:?}");
                    assert!(ticks.len() <= room + 2, "{scale:?} {low} {high} {room}: {ticks:?}");
                    for v in [low, high] {
                        let at = axis.place(v, &ticks);
                        assert!((-1e-6..=1.0 + 1e-6).contains(&at), "{scale:?} {v}: {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn figures_keep_three_digits() {
        let all = [1234.5, 12.345, 1.2, 0.012345].map(|v| Quantity::Number.figure(v));
        assert_eq!(all, ["1,234", "12.3", "1.2", "0.0123"]);
        let all = [2.0, 0.9999, 1.5e-3, 0.99e-6].map(|v| Quantity::Seconds.figure(v));
        assert_eq!(all, ["2 s", "1 s", "1.5 ms", "990 ns"]);
    }
}
