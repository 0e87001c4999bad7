/** The version every part of this repository reports. */
export const VERSION = "0.1.0";
