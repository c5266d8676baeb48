//! Powers of ten, to 64 bits: what every double between its neighbours needs to be written in decimal.
//!
//! Made by the compiler: from 10^0 upwards and downwards with 128 bits, of which the upper half is kept. Each step
//! loses less than 8 units of 2^-128, so that each power is the true one cut off, or less by one: it is never
//! too large, and too small by less than two units of its last place.

/// A power 10^n as `digits * 2^(exponent(n) - 63)`, the highest bit of `digits` being set.
pub(crate) const fn digits(n: i32) -> u64 {
    DIGITS[(n - FIRST) as usize]
}

/// The power of two that is just below or at 10^n.
pub(crate) const fn exponent(n: i32) -> i32 {
    // log2(10), exact enough for all n here.
    (n * 217_706) >> 16
}

const FIRST: i32 = -325;
const LAST: i32 = 340;

static DIGITS: [u64; (LAST - FIRST + 1) as usize] = {
    let mut digits = [0; (LAST - FIRST + 1) as usize];
    let mut power = 1_u128 << 127;
    let mut n = 0;
    while n <= LAST {
        digits[(n - FIRST) as usize] = (power >> 64) as u64;
        // By 10 / 8 or 10 / 16: the highest bit stays the highest. Then it is below 0.8 or not.
        let quarter = power >> 2;
        power = match power.checked_add(quarter) {
            Some(sum) => sum,
            None => (power >> 1) + (power >> 3),
        };
        n += 1;
    }
    let mut power = 1_u128 << 127;
    let mut n = 0;
    while n >= FIRST {
        digits[(n - FIRST) as usize] = (power >> 64) as u64;
        let fifth = power / 5;
        power = fifth << fifth.leading_zeros();
        n -= 1;
    }
    digits
};

#[cfg(test)]
mod tests {
    use super::{FIRST, LAST, digits, exponent};

    /// A number of any length, its lowest 32 bits first.
    struct Long(Vec<u32>);

    impl Long {
        fn times(&mut self, factor: u32) {
            let mut carry = 0;
            for word in &mut self.0 {
                let product = u64::from(*word) * u64::from(factor) + carry;
                (*word, carry) = (product as u32, product >> 32);
            }
            if carry > 0 {
                self.0.push(carry as u32);
            }
        }

        fn over(&mut self, divisor: u32) {
            let mut rest = 0;
            for word in self.0.iter_mut().rev() {
                let all = rest << 32 | u64::from(*word);
                (*word, rest) = ((all / u64::from(divisor)) as u32, all % u64::from(divisor));
            }
            while self.0.last() == Some(&0) {
                self.0.pop();
            }
        }

        /// The highest 64 bits, and the place of the highest.
        fn top(&self) -> (u64, i32) {
            let [b, c, a] = [2, 3, 1].map(|at| u128::from(self.0[self.0.len() - at]));
            let top = a << 96 | b << 64 | c << 32;
            let zeros = top.leading_zeros();
            ((top << zeros >> 64) as u64, self.0.len() as i32 * 32 - zeros as i32 - 1)
        }
    }

    #[test]
    fn powers_are_cut_off_and_less_by_one_at_most() {
        for n in FIRST..=LAST {
            // 2^2048 * 10^n.
            let mut power = Long(vec![0; 64]);
            power.0.push(1);
            for _ in 0..n.abs() {
                if n > 0 { power.times(10) } else { power.over(10) }
            }
            let (top, place) = power.top();
            assert!([0, 1].contains(&(top - digits(n))), "10^{n}: {top:x} {:x}", digits(n));
            assert_eq!(exponent(n), place - 2048, "10^{n}");
        }
    }
}
