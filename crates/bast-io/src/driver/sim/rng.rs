//! The simulator's dice: SplitMix64, the same numbers for the same seed on every machine.
//!
//! Every choice that a real kernel, network or disk would make for us (who is first, how late, how
//! much) is drawn here, and nothing else is random.

/// A small deterministic generator.
#[derive(Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) const fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n` (0 for `n` = 0). The bias of the plain remainder does not matter here.
    pub(super) const fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.next() % n as u64) as usize }
    }

    /// True in `of` cases out of `among`.
    pub(super) const fn chance(&mut self, of: usize, among: usize) -> bool {
        self.below(among) < of
    }

    /// How much of `n` possible bytes are moved at once: mostly all, sometimes fewer, at least one.
    pub(super) const fn portion(&mut self, n: usize) -> usize {
        if n > 1 && self.chance(1, 4) { 1 + self.below(n) } else { n }
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn known_numbers() {
        // SplitMix64's published first outputs for seed 1234567.
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.next(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn portions_are_never_empty_and_never_too_much() {
        let mut rng = Rng::new(7);
        for n in 1..200 {
            let part = rng.portion(n);
            assert!(part >= 1 && part <= n);
        }
        assert_eq!(rng.portion(0), 0);
    }
}
