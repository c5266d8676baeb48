//! How the machine that made a file lays out C's structures: byte order, sizes and alignment.
//!
//! The format is what C compilers make of rrdtool's structures, so there is one for each ABI:
//!
//! ```text
//!                 long  time_t  double at   cookie at
//!   64 bits        8      8     8 | n          16      x86-64, aarch64, s390x (big-endian), …
//!   32 bits        4      4     8 | n          16      arm, mips, powerpc and sparc (big-endian)
//!   32 bits, 2038  4      8     8 | n          16      arm of Debian 13; 64-bit Windows
//!   i386           4      4     4 | n          12
//!   i386, 2038     4      8     4 | n          12
//! ```
//!
//! The structures follow each other without gaps; gaps are only inside of them:
//!
//! ```text
//!   static head   cookie "RRD\0", version "0003\0", a double that must be FLOAT_COOKIE,
//!                 long sources, archives, step; 10 parameters
//!   each source   name[20], type[20]; 10 parameters: heartbeat (long), min, max (double), …
//!   each archive  name[20]; long rows, steps; 10 parameters: xff (double), …
//!   live head     time_t last update; from version 0003 on: long microseconds
//!   each source   last reading[30]; 10 scratch: unknown seconds (long), value (double), …
//!   each archive, each source   10 scratch: value (double), unknown steps (long), …
//!   each archive  long: the row written last
//!   each archive  rows x sources doubles; the row written last is the newest, the one after it the oldest
//! ```

/// The double that tells how a machine stores doubles.
pub(crate) const FLOAT_COOKIE: f64 = 8.642135E130;

/// Names of sources, types and functions.
pub(crate) const NAME: u64 = 20;

/// A parameter is a union of a long and a double: the size of the larger.
pub(crate) const PAR: u64 = 8;

/// How many parameters each structure has.
pub(crate) const PARS: u64 = 10 * PAR;

/// The last reading of a source, as text.
pub(crate) const LAST_DS: u64 = 30;

/// Numbers of one kind of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) big_endian: bool,
    /// Bytes of a `long`.
    pub(crate) long: u64,
    /// Bytes of a `time_t`.
    pub(crate) time: u64,
    /// Where doubles and 64-bit numbers in structures begin: at multiples of this.
    pub(crate) align: u64,
}

fn round_up(n: u64, to: u64) -> u64 {
    n.next_multiple_of(to)
}

impl Layout {
    /// What rrdtool on this machine writes.
    pub(crate) const NATIVE: Layout = Layout {
        big_endian: cfg!(target_endian = "big"),
        long: if cfg!(all(target_pointer_width = "64", not(windows))) { 8 } else { 4 },
        time: if cfg!(any(target_pointer_width = "64", windows)) { 8 } else { 4 },
        align: if cfg!(all(target_arch = "x86", not(windows))) { 4 } else { 8 },
    };

    /// Where the three longs of the static head begin.
    pub(crate) fn counts_at(self) -> u64 {
        self.cookie_at() + 8
    }

    pub(crate) fn cookie_at(self) -> u64 {
        round_up(4 + 5, self.align)
    }

    pub(crate) fn static_head(self) -> u64 {
        round_up(self.counts_at() + 3 * self.long, self.align) + PARS
    }

    pub(crate) fn source(self) -> u64 {
        2 * NAME + PARS
    }

    /// Where the two longs of an archive begin.
    pub(crate) fn archive_longs_at(self) -> u64 {
        round_up(NAME, self.long)
    }

    /// Where the parameters of an archive begin.
    pub(crate) fn archive_pars_at(self) -> u64 {
        round_up(self.archive_longs_at() + 2 * self.long, self.align)
    }

    pub(crate) fn archive(self) -> u64 {
        self.archive_pars_at() + PARS
    }

    pub(crate) fn live_head(self, version: u32) -> u64 {
        match version < 3 {
            true => self.time,
            false => round_up(self.time + self.long, self.align.min(self.time)),
        }
    }

    /// Where the scratch of a source begins.
    pub(crate) fn prep_pars_at(self) -> u64 {
        round_up(LAST_DS, self.align)
    }

    pub(crate) fn source_prep(self) -> u64 {
        self.prep_pars_at() + PARS
    }

    pub(crate) fn archive_prep(self) -> u64 {
        PARS
    }

    /// Where the live head begins, and where the whole head ends. None: beyond the end of any file.
    pub(crate) fn head(self, version: u32, sources: u64, archives: u64) -> Option<(u64, u64)> {
        let [sources, archives] = [sources, archives].map(u128::from);
        let live = u128::from(self.static_head())
            + sources * u128::from(self.source())
            + archives * u128::from(self.archive());
        let preps = sources.checked_mul(archives)?.checked_mul(self.archive_prep().into())?;
        let all = live
            + u128::from(self.live_head(version))
            + sources * u128::from(self.source_prep())
            + archives * u128::from(self.long);
        let all = all.checked_add(preps).filter(|all| *all <= i64::MAX as u128)?;
        Some((live as u64, all as u64))
    }

    /// The number in these bytes; a `long` or a `time_t`.
    pub(crate) fn unsigned(self, bytes: &[u8]) -> u64 {
        let digit = |n: u64, byte: &u8| n << 8 | u64::from(*byte);
        match self.big_endian {
            true => bytes.iter().fold(0, digit),
            false => bytes.iter().rev().fold(0, digit),
        }
    }

    pub(crate) fn signed(self, bytes: &[u8]) -> i64 {
        let unused = 64 - 8 * bytes.len() as u32;
        (self.unsigned(bytes) << unused) as i64 >> unused
    }

    pub(crate) fn double(self, bytes: [u8; 8]) -> f64 {
        match self.big_endian {
            true => f64::from_be_bytes(bytes),
            false => f64::from_le_bytes(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Layout;

    /// Of `sizeof` and `offsetof` in C on these machines.
    #[test]
    fn sizes_are_those_of_c() {
        let of = |long, time, align| {
            let layout = Layout { big_endian: false, long, time, align };
            [
                layout.static_head(),
                layout.source(),
                layout.archive(),
                layout.live_head(2),
                layout.live_head(3),
                layout.source_prep(),
            ]
        };
        assert_eq!(of(8, 8, 8), [128, 120, 120, 8, 16, 112]);
        assert_eq!(of(4, 4, 8), [120, 120, 112, 4, 8, 112]);
        assert_eq!(of(4, 8, 8), [120, 120, 112, 8, 16, 112]);
        assert_eq!(of(4, 4, 4), [112, 120, 108, 4, 8, 112]);
        assert_eq!(of(4, 8, 4), [112, 120, 108, 8, 12, 112]);
    }
}
