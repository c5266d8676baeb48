//! Windows' account of this process.
#![allow(unsafe_code)]

use std::time::Duration;

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::ProcessStatus::{GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetProcessHandleCount, GetProcessTimes,
};

/// How many threads it has.
pub(crate) fn threads() -> usize {
    bast_io::probe::threads().unwrap()
}

/// How many handles are open.
pub(crate) fn handles() -> usize {
    let mut count = 0;
    // SAFETY: an answer in a local.
    assert_ne!(unsafe { GetProcessHandleCount(GetCurrentProcess(), &raw mut count) }, 0);
    count as usize
}

/// Resident memory in KiB.
pub(super) fn resident() -> usize {
    // SAFETY: zeroes are a valid value; an answer in a local.
    unsafe {
        let mut counters: PROCESS_MEMORY_COUNTERS = std::mem::zeroed();
        let size = size_of_val(&counters) as u32;
        assert_ne!(GetProcessMemoryInfo(GetCurrentProcess(), &raw mut counters, size), 0);
        counters.WorkingSetSize >> 10
    }
}

/// CPU time that the process has used.
pub(super) fn cpu_time() -> Duration {
    // SAFETY: zeroes are valid values; answers in locals.
    let [_, _, kernel, user] = unsafe {
        let mut times: [FILETIME; 4] = std::mem::zeroed();
        let [born, ended, kernel, user] = times.each_mut();
        assert_ne!(GetProcessTimes(GetCurrentProcess(), born, ended, kernel, user), 0);
        times
    };
    let units =
        |time: FILETIME| u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
    Duration::from_nanos(100 * (units(kernel) + units(user)))
}
