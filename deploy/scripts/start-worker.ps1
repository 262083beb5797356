# Let this machine help a cluster.
#   .\start-worker.ps1 TOKEN                       the word after --join that the coordinator printed
#   .\start-worker.ps1 -CoordinatorIp 192.168.1.5 -GpuId 0 -WorkerId w1
# Read from the environment too: COORDINATOR_IP, REDIS_URL, GPU_ID, USE_GPU, WORKER_ID, NUM_WORKERS.
# What is not named here is for `anyrig worker`: -v, which is PowerShell's own too, and long names.
[CmdletBinding(PositionalBinding = $false)]
param(
    [Parameter(Position = 0)][string]$Join = "",
    [string]$CoordinatorIp = "",
    [string]$GpuId = "",
    [string]$WorkerId = "",
    [Parameter(ValueFromRemainingArguments = $true)][string[]]$Rest = @()
)
$ErrorActionPreference = "Stop"

$anyrig = $env:ANYRIG
if (-not $anyrig) {
    $found = Get-Command anyrig -ErrorAction SilentlyContinue
    $own = Join-Path $PSScriptRoot "..\..\.venv\Scripts\anyrig.exe"
    if ($found) { $anyrig = $found.Source }
    elseif (Test-Path $own) { $anyrig = $own }
    else { Write-Error "anyrig is not installed. Run install.ps1, or: pip install anyrig" }
}

if ($CoordinatorIp) { $env:COORDINATOR_IP = $CoordinatorIp }
if ($GpuId) { $env:GPU_ID = $GpuId }
if ($WorkerId) { $env:WORKER_ID = $WorkerId }
if ($Join.StartsWith("-")) { $Rest = @($Join) + $Rest; $Join = "" } # options alone
$words = @("worker")
if ($Join -like "anyrig1_*") { $words += @("--join", $Join) }
elseif ($Join) { $words += @("--broker", $Join) }
if ($PSBoundParameters.ContainsKey("Verbose")) { $words += "-v" }
$words += $Rest
& $anyrig @words
exit $LASTEXITCODE
