#!/bin/bash
#SBATCH --gres=xilinx.com/fpga-u250:1,gpu:1
#SBATCH --switches=1
./bitstream
